#!/bin/bash
#SBATCH --nodelist=node[01-03],gpu7
#SBATCH --exclude=node02
#SBATCH --ntasks=4
srun -n 4 ./work
