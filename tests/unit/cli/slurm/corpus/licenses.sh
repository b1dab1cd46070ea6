#!/bin/bash
#SBATCH --licenses=matlab:1
#SBATCH --reservation=course
#SBATCH --nice=100
matlab -batch run
