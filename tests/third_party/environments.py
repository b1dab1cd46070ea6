"""Environments of real third-party packages, made once into a cache outside the checkout and shared by all checkouts.

Each holds one package, what our client requires, and pytest: that they resolve together is what a user needs too. What is ours
is no part of them: the tests put the wheel of the checkout on the path.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())
CLIENT, API = ROOT / "services" / "pyroclast_client", ROOT / "libs" / "pyroclast"
SNAKEMAKE = ROOT / "services" / "snakemake_executor_plugin_pyroclast"
HYDRA = ROOT / "services" / "hydra_plugins" / "pyroclast_launcher"
STANDALONE = ROOT / "services" / "pyroclast_standalone"
INSTALL_SECONDS = 240
UV = [sys.executable, "-m", "uv"]


class NotInstalled(RuntimeError):
    """The packages cannot be had on this machine."""


def environment(name: str) -> Path:
    """The Python of the environment `name`. Two callers at once make it once: the second waits for the first.

    Raises:
        NotInstalled: a package cannot be downloaded.
    """
    projects = (API, CLIENT, ROOT, STANDALONE) if name in VERSIONS["with_control_plane"] else (API, CLIENT)
    own = [need for project in projects for need in _project(project)["dependencies"] if not need.startswith("pyroclast")]
    needs = [*VERSIONS["environments"][name], *own, "pytest>=8.4"]
    key = hashlib.sha256(json.dumps([needs, VERSIONS["as_of"], sys.version]).encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyroclast" / "third-party"
    folder = root / f"{name}-{key}"
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _make(folder, needs)
    return folder / "bin" / "python"


def site(folder: Path) -> Path:
    """A folder for PYTHONPATH with the wheels of the client, of what it shares with others and of its plugins."""
    for project in (API, CLIENT, SNAKEMAKE, HYDRA, ROOT, STANDALONE):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
        subprocess.run(build, cwd=project, check=True, capture_output=True)
    wheels = [str(wheel) for wheel in (folder / "wheels").glob("*.whl")]
    install = [*UV, "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site"), *wheels]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "site"


def _project(folder: Path) -> dict[str, list[str]]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])


def _make(folder: Path, needs: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, capture_output=True)
    install = [*UV, "pip", "install", "--quiet", "--exclude-newer", VERSIONS["as_of"], "--python", str(folder / "bin" / "python")]
    try:
        subprocess.run([*install, *needs], check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(error.stderr or error).strip().splitlines()
        raise NotInstalled(f"{needs[0]} cannot be installed: {said[-1] if said else error}") from error
    (folder / "complete").touch()  # only behind a whole environment
