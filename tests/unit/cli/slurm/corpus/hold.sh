#!/bin/bash
#SBATCH --hold
#SBATCH --account=physics
#SBATCH --qos=long
#SBATCH --priority=high
./work
