"""The commands of people who come from Slurm."""
