#!/bin/bash
#SBATCH -a 7,1,3-5,10-20:5
#SBATCH -t 10
FILES=(data/*.csv)
./convert "${FILES[$SLURM_ARRAY_TASK_ID]}"
