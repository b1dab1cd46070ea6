#!/bin/bash
#SBATCH --dependency=afterok:prepare-x1y2z:download-a1b2c,afterany:cleanup-q1w2e
#SBATCH --kill-on-invalid-dep=no
./collect
