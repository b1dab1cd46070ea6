#!/bin/bash -l
#SBATCH -N 2
#SBATCH --ntasks=64
#SBATCH -t 2:00:00
#SBATCH -o lammps-%j.out -e lammps-%j.err
mpirun -np $SLURM_NTASKS ./lammps -in in.lj
