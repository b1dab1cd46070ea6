#!/bin/bash
#SBATCH --time=15
#SBATCH --mem 1G
cat > input.yaml <<EOF
#SBATCH --partition=not-an-option
steps: 100
EOF
python - <<'PY'
import yaml
print(yaml.safe_load(open("input.yaml")))
PY
