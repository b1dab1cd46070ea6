#!/bin/sh
#SBATCH -J short
#SBATCH -p batch
#SBATCH -t 30
#SBATCH -c 4
#SBATCH -n1
#SBATCH -o out.%j
./work --threads "$SLURM_CPUS_PER_TASK"
