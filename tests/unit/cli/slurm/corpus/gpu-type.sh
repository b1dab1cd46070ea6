#!/bin/bash
#SBATCH --gpus=a100:4
#SBATCH --cpus-per-task=16
#SBATCH --constraint=nvlink&disk=ssd|bigmem
python train.py
