#!/bin/bash
#SBATCH --signal=SIGTERM@120
#SBATCH --time=04:00:00
#SBATCH --open-mode=append
#SBATCH --output=run.log
trap 'echo saving; touch checkpoint; exit 0' TERM
./long & wait
