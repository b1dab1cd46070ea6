#!/usr/bin/env Rscript
#SBATCH --ntasks 1
#SBATCH --mem-per-cpu 3000
x <- rnorm(100)
print(summary(x))
