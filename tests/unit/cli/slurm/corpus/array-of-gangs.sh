#!/bin/bash
#SBATCH --array=1-4
#SBATCH --nodes=2
srun ./sim "$SLURM_ARRAY_TASK_ID"
