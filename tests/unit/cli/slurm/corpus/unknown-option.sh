#!/bin/bash
#SBATCH --gpu-flavour=a100
./work
