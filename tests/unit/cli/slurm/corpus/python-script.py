#!/usr/bin/env python3
# SBATCH --job-name=py
# SBATCH --cpus-per-task=3

import os

print(os.environ["SLURM_CPUS_PER_TASK"])
