"""Builds the programs of a real control plane from their Go modules into a cache outside the checkout.

Each folder under `tools/` is one Go module that pins one upstream (they disagree on the versions of what they share). The
cache key is the hash of the module's go.mod and go.sum and of the link-time variables, so a changed pin builds anew and an
unchanged one costs nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TOOLS", "GoMissing", "Tool", "build", "cache_root", "missing", "program"]

_TOOLS_DIR = Path(__file__).parent / "tools"
_KUBERNETES_VERSION = "v1.36.1"
_STAMP = "k8s.io/component-base/version"
_NICENESS = 15  # a build must not slow down the tests that run beside it


class GoMissing(RuntimeError):
    """There is no Go on this machine and the program is not in the cache."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: the Go module that pins it, its package, and the link-time variables it needs."""

    name: str
    module: str
    package: str
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> Path:
        """Where the built program lies; it is there only if it was built."""
        digest = hashlib.sha256(repr(self.variables).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((_TOOLS_DIR / self.module / name).read_bytes())
        return cache_root() / f"{self.module}-{digest.hexdigest()[:16]}" / self.name


def _kubernetes(name: str) -> Tool:
    major, minor, _ = _KUBERNETES_VERSION.removeprefix("v").split(".")
    stamps = {"gitVersion": _KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    variables = tuple((f"{_STAMP}.{variable}", value) for variable, value in stamps.items())
    return Tool(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", variables)


def _helm() -> Tool:
    major, minor, _ = _KUBERNETES_VERSION.removeprefix("v").split(".")
    variables = [("helm.sh/helm/v3/internal/version.version", "v3.22.0")]
    for package in ("chartutil", "lint/rules"):  # the version that `helm template` assumes without a cluster
        variables += [
            (f"helm.sh/helm/v3/pkg/{package}.k8sVersionMajor", major),
            (f"helm.sh/helm/v3/pkg/{package}.k8sVersionMinor", minor),
        ]
    return Tool("helm", "helm", "helm.sh/helm/v3/cmd/helm", tuple(variables))


# In the order in which others can use them: a server before its controllers.
TOOLS: tuple[Tool, ...] = (
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _helm(),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


def cache_root() -> Path:
    """The folder of all built programs: `$XDG_CACHE_HOME/pyroclast/control-plane`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyroclast" / "control-plane"


def program(name: str) -> Path:
    """The built program `name`; built now if it is not there.

    Raises:
        GoMissing: it is not in the cache and there is no Go to build it with.
    """
    build([name])
    return _BY_NAME[name].path


def missing(names: Iterable[str] = tuple(_BY_NAME)) -> list[str]:
    """Which of the programs are not in the cache."""
    return [name for name in names if not _BY_NAME[name].path.exists()]


def build(names: Iterable[str] = tuple(_BY_NAME)) -> None:
    """Build what is missing. Two callers at once build once: the second waits for the first."""
    wanted = missing(names)
    if not wanted:
        return
    if shutil.which("go") is None:
        raise GoMissing(f"no Go on this machine to build {', '.join(wanted)}; install Go 1.26 or newer")
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in missing(wanted):
            _build(_BY_NAME[name])


def _build(tool: Tool) -> None:
    print(f"building {tool.name} (once; minutes)", flush=True)
    unfinished = tool.path.with_suffix(".building")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    flags = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in tool.variables)])
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(unfinished), tool.package]
    subprocess.run(["nice", "-n", str(_NICENESS), *command], cwd=_TOOLS_DIR / tool.module, check=True)
    unfinished.rename(tool.path)  # the name appears only with a whole program behind it
