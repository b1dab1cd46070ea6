#!/bin/bash
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --tmp=100G
#SBATCH --gres=gpu:v100:1
singularity exec --nv image.sif python train.py
