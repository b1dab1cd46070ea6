#!/bin/bash
#SBATCH --job-name=wrf
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=32
#SBATCH --mem-per-cpu=2G
#SBATCH --time=1-12:00:00
#SBATCH --partition=hpc
#SBATCH --export=NONE
module purge
module load gcc openmpi
srun ./wrf.exe
