#!/bin/bash
#SBATCH --job-name="my long name"
#SBATCH --comment='it is "quoted"'   # and this is a comment
#SBATCH --output "logs/run %x.txt"
##SBATCH --partition=disabled
# SBATCH --partition=also-disabled

true
#SBATCH --partition=too-late
