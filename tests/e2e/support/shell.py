"""The programs of a user's machine, run as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(sys.executable).parent


class Shell:
    """Runs the programs as a user of one namespace does."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
        self.namespace = namespace

    def run(self, program: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """What it printed and how it ended; a traceback is never right."""
        command = [program if program == "kubectl" else str(PROGRAMS / program), *arguments]
        done = subprocess.run(command, env=self.environment, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def said(self, program: str, *arguments: str, status: int = 0) -> str:
        """What it printed on standard output, where it ends with `status`."""
        done = self.run(program, *arguments)
        assert (done.returncode, done.stderr) == (status, "")
        return done.stdout

    def phase(self, name: str) -> str:
        table = self.said("vcctl", "job", "list", "-n", self.namespace)
        row = next((line.split() for line in table.splitlines() if line.split()[0] == name), None)
        return row[2] if row else ""
