#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --container-image=nvcr.io/nvidia/pytorch:25.10-py3
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
nodes=( $( scontrol show hostnames "$SLURM_JOB_NODELIST" ) )
head=${nodes[0]}
srun torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc_per_node 8 \
  --rdzv_backend c10d --rdzv_endpoint "$head:29500" train.py
