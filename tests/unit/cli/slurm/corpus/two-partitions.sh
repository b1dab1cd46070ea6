#!/bin/bash
#SBATCH --partition=short,long
#SBATCH --mail-type=NONE
./work
