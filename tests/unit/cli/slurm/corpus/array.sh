#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-99%10
#SBATCH --output=logs/%A_%a.out
#SBATCH --error=logs/%A_%a.err
#SBATCH --mem=4G
#SBATCH --cpus-per-task=2
python train.py --seed "$SLURM_ARRAY_TASK_ID"
