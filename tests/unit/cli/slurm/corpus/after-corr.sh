#!/bin/bash
#SBATCH --array=0-9
#SBATCH -d aftercorr:first-stage-abcde
./second-stage "$SLURM_ARRAY_TASK_ID"
