#!/bin/bash
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ada@example.org
#SBATCH --time=60
./work
