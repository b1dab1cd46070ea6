"""The real Hydra with its launcher for submitit: the runs of a sweep are pods."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pyroclast.client as pc

CONFIG = "rate: 0.5\n"


@pytest.fixture
def app(tmp_path: Path, example: Callable[[str], str]) -> Path:
    (tmp_path / "app.py").write_text(example("Hydra"))
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def multirun(app: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    options = ["hydra/launcher=pyroclast", "hydra.launcher.image=local", f"hydra.launcher.python={sys.executable}"]
    command = [sys.executable, "app.py", "--multirun", *options, "hydra.sweep.dir=runs", *overrides]
    return subprocess.run(command, cwd=app, capture_output=True, text=True, timeout=240, check=False)


def names() -> set[str]:
    """The Jobs of the program, in the namespace of the kubeconfig."""
    with pc.Client() as client:
        return {job.name for job in client.jobs() if job.name.startswith("app-")}


def test_the_runs_of_a_sweep_are_jobs(app: Path) -> None:
    before = names()
    done = multirun(app, "rate=0.5,0.25,0.125")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(names() - before) == 3
    for number, rate in enumerate(("0.5", "0.25", "0.125")):
        assert f"training with {rate}" in (app / "runs" / str(number) / "app.log").read_text()


def test_a_run_that_fails_fails_the_sweep(app: Path) -> None:
    done = multirun(app, "rate=0.5,0")
    assert done.returncode != 0
    assert re.search("ZeroDivisionError", done.stdout + done.stderr)
