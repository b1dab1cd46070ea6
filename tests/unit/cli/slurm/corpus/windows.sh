#!/bin/bash
#SBATCH --time=10
echo from Windows
