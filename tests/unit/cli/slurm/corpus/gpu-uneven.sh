#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus=3
srun ./train
