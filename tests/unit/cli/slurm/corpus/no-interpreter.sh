#SBATCH --time=10
echo forgot the first line
