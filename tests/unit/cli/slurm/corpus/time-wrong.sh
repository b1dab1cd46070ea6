#!/bin/bash
#SBATCH --time=tomorrow
#SBATCH --mem=lots
#SBATCH --array=5-1
#SBATCH --signal=SIGNOTHING@60
./work
