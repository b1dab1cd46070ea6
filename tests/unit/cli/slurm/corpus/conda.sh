#!/bin/bash -l
#SBATCH --job-name=conda
#SBATCH --ntasks=1
#SBATCH --mem=16G
#SBATCH --export=ALL,WANDB_MODE=offline,SEED
#SBATCH --chdir=/data/project
source "$HOME/miniconda3/etc/profile.d/conda.sh"
conda activate torch
python -u main.py
