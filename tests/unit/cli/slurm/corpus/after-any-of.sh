#!/bin/bash
#SBATCH --dependency=afterok:one?afterok:two
#SBATCH --begin=now+1hour
./merge
