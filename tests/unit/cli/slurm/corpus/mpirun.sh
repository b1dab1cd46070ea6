#!/bin/bash -l
#SBATCH -N 2
#SBATCH --ntasks=64
#SBATCH -t 2:00:00
#SBATCH --mpi=pmix
mpirun -np $SLURM_NTASKS ./lammps -in in.lj
