#!/bin/bash
#SBATCH --time=1-2
#SBATCH --deadline=now+3days
./work
