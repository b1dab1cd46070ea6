#!/bin/bash
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-gpu=8
#SBATCH --mem-per-gpu=64G
#SBATCH --partition=gpu
nvidia-smi
python train.py
