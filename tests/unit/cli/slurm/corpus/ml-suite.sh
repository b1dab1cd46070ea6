#!/bin/bash
#SBATCH --job-name=llm_finetune
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-task=1
#SBATCH --cpus-per-task=12
#SBATCH --mem=480G
#SBATCH --hint=nomultithread
#SBATCH --distribution=block:block
#SBATCH --no-requeue
#SBATCH --volume=datasets:/data
export MASTER_PORT=12802
srun python finetune.py
