"""Scripts as people have them, through `vcctl sbatch --dry-run`: the Job of each, or why it is refused.

`UPDATE_GOLDEN=1` writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from pyroclast_cli import programs
from pyroclast_cli.slurm import submitting
from pyroclast_cli.slurm.jobs import Place
from pyroclast_cli.views.manifests import check_manifests

CORPUS = Path(__file__).with_name("corpus")
SCRIPTS = sorted(file for file in CORPUS.iterdir() if file.suffix in {".sh", ".py"})
ADA = Place("abcde", "ada", "/home/ada", {"SEED": "7", "PATH": "/bin"}, products=("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_becomes_a_valid_job_or_is_refused_by_name(script, capsys, monkeypatch):
    monkeypatch.setattr(submitting, "here", lambda: ADA)
    status = programs.vcctl(["sbatch", "--dry-run", str(script)])
    printed = capsys.readouterr()
    want = script.with_suffix(".refused" if status else ".yaml")
    text = printed.err if status else "".join(f"# {line}\n" for line in printed.err.splitlines()) + printed.out
    if os.environ.get("UPDATE_GOLDEN"):
        for suffix in (".refused", ".yaml"):
            script.with_suffix(suffix).unlink(missing_ok=True)
        want.write_text(text)
    assert text == want.read_text()
    if not status:
        (checked,) = check_manifests([yaml.safe_load(printed.out)], "default")
        assert checked.faults == ()


def test_the_corpus_has_scripts_of_both_outcomes():
    assert len(SCRIPTS) >= 40
    assert 10 <= len(list(CORPUS.glob("*.refused"))) <= len(SCRIPTS) // 2
