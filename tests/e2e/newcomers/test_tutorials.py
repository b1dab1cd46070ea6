"""Every command of the tutorials runs as it stands there, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.unit.docs.pages import PAGES, ROOT

# they start and stop the control plane, which the tests have done already
OF_THE_CONTROL_PLANE = ("make run", ".venv/bin/pyroclast", "export")
STATUS = {"vcctl explain large": 3, "kubectl create -f examples/invalid/": 1}
STEP = re.compile(r"Save this as `(?P<file>[\w.]+)`|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(page: str) -> Iterator[tuple[str, str]]:
    """What a reader does, in order: ("", command) or (file, its content)."""
    file = ""
    for found in STEP.finditer(PAGES[page]):
        if found["file"]:
            file = found["file"]
        elif found["language"] == "yaml":
            yield file, found["text"]
        elif found["language"] == "":
            yield from (("", line) for line in found["text"].splitlines() if not line.startswith(OF_THE_CONTROL_PLANE))


class Reader:
    """Somebody who types what the page says, in the namespace `default`."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
        (folder / "examples").symlink_to(ROOT / "examples")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def does(self, command: str) -> None:
        if command.startswith("vcctl explain"):
            wait_until(lambda: self.run(command).returncode == STATUS[command], command)
            return
        done = self.run(command)
        assert done.returncode == STATUS.get(command, 0), f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", ["docs/tutorials/first-gang.md", "docs/tutorials/training-job.md"])
def test_every_command_of_a_tutorial_runs(page: str, cluster: Cluster, tmp_path: Path) -> None:
    reader = Reader(cluster, tmp_path)
    done = []
    for file, text in steps(page):
        if file:
            (tmp_path / file).write_text(text)
        else:
            reader.does(text)
            done.append(text)
    assert len(done) > 8


@pytest.fixture(autouse=True)
def clean_up(cluster: Cluster) -> Iterator[None]:
    """Delete what the tutorials leave behind; a queue goes when its Jobs have gone."""
    yield
    for kind in ("jobflows", "jobtemplates", "vcjob"):
        cluster.kubectl("delete", kind, "--all", "-n", "default")
    cluster.kubectl("delete", "queue", "training", "--ignore-not-found")
