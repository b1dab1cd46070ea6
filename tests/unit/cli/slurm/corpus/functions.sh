#!/usr/bin/env bash
#SBATCH -c 2 --mem=2G -t 0-01
set -euo pipefail
stage() {
  local name=$1; shift
  echo "[$(date)] $name"; "$@"
}
stage fetch ./fetch
stage build make -j"$SLURM_CPUS_PER_TASK"
