#!/bin/bash
#SBATCH --nodes=2-4
#SBATCH --mem=0
srun ./work
