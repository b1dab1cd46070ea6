#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --time=00:05:00
#SBATCH --mem=512M

echo "Hello from $(hostname)"
