#!/bin/bash
#SBATCH --gres=rdma/hca:1,gpu:h100:8(S:0-1)
./train
