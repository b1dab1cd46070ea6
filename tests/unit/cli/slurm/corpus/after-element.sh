#!/bin/bash
#SBATCH --dependency=afterok:sweep-abcde_5,after:other+10
./merge
