#!/bin/bash
#SBATCH -J nightly
#SBATCH --dependency=singleton
./nightly
