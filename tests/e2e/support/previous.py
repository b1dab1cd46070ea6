"""The release before this one, as the other side of upgrades."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMIT = "297fca4"
"""The commit of the release before this one."""


def unpacked(folder: Path) -> Path | None:
    """Its tree, unpacked into `folder`; None where this checkout does not have it."""
    archive = folder / "tree.tar"
    command = ["git", "archive", "-o", str(archive), COMMIT, "libs", "services", "charts"]
    if subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode != 0:
        return None
    with tarfile.open(archive) as tree:
        tree.extractall(folder, filter="data")
    return folder


def previous_release(folder: Path) -> Path:
    """As `unpacked`, but the test is left out where the tree is not there."""
    tree = unpacked(folder)
    if tree is None:
        pytest.skip(f"this checkout has no commit {COMMIT}: clone it with its history")
    return tree


def python_path(tree: Path) -> str:
    """PYTHONPATH with which Python runs the programs of `tree`, whatever else is installed."""
    return os.pathsep.join([str(tree / "libs"), str(tree / "services")])
