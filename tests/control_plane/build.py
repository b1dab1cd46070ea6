"""Builds the programs of a real control plane from their Go modules into a cache outside the checkout.

Each folder under `tools/` is one Go module that pins one upstream (they disagree on the versions of what they share). The
cache key is the hash of the module's go.mod and go.sum and of the link-time variables, so a changed pin builds anew and an
unchanged one costs nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "NEXT",
    "PRESENT",
    "GoMissing",
    "Tool",
    "build",
    "cache_root",
    "kueue",
    "missing",
    "names",
    "of_nodes",
    "program",
    "skaffold",
    "tools",
]

_TOOLS_DIR = Path(__file__).parent / "tools"
PRESENT, NEXT = "1.36", "1.37"
"""The versions of Kubernetes that tests run on: the one that everything is tested with, and the one after it."""

_KUBERNETES = {PRESENT: ("kubernetes", "v1.36.1"), NEXT: ("kubernetes-1.37", "v1.37.2")}
"""For each the folder that pins it, and its whole version."""
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
    static: bool = False
    """Whether it runs where there is no C library, as in an image of its own."""

    @property
    def path(self) -> Path:
        """Where the built program lies; it is there only if it was built."""
        digest = hashlib.sha256(repr((self.variables, self.static) if self.static else self.variables).encode())
        for source in sorted((_TOOLS_DIR / self.module).iterdir()):
            digest.update(source.read_bytes())
        return cache_root() / f"{self.module}-{digest.hexdigest()[:16]}" / self.name


def _kubernetes(name: str, kubernetes: str) -> Tool:
    module, version = _KUBERNETES[kubernetes]
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    variables = tuple((f"{_STAMP}.{variable}", value) for variable, value in stamps.items())
    return Tool(name, module, f"k8s.io/kubernetes/cmd/{name}", variables)


def _helm() -> Tool:
    major, minor, _ = _KUBERNETES[PRESENT][1].removeprefix("v").split(".")
    variables = [("helm.sh/helm/v3/internal/version.version", "v3.22.0")]
    for package in ("chartutil", "lint/rules"):  # the version that `helm template` assumes without a cluster
        variables += [
            (f"helm.sh/helm/v3/pkg/{package}.k8sVersionMajor", major),
            (f"helm.sh/helm/v3/pkg/{package}.k8sVersionMinor", minor),
        ]
    return Tool("helm", "helm", "helm.sh/helm/v3/cmd/helm", tuple(variables))


def tools(kubernetes: str = PRESENT) -> tuple[Tool, ...]:
    """All programs, those of Kubernetes in that version, in the order in which others can use them."""
    return (
        Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver", kubernetes),
        _helm(),
        _kubernetes("kube-controller-manager", kubernetes),
        _kubernetes("kube-scheduler", kubernetes),
    )


def of_nodes() -> tuple[Tool, ...]:
    """The programs of real nodes, in the version that everything is tested with."""
    coredns = Tool("coredns", "coredns", "pyroclast/control-plane/coredns", static=True)
    return (_kubernetes("kubelet", PRESENT), _kubernetes("kube-proxy", PRESENT), coredns)


def skaffold() -> Tool:
    """The tool of `skaffold dev`. Its own go.mod pins what it needs, also by replacements that count only in the main module."""
    variables = (("github.com/GoogleContainerTools/skaffold/v2/pkg/skaffold/version.version", "v2.16.1"),)
    return Tool("skaffold", "skaffold", "./cmd/skaffold", variables)


def kueue() -> Tool:
    """The manager of Kueue, which admits and preempts Jobs in the tests of `spec.suspend`."""
    return Tool("kueue", "kueue", "./cmd/kueue")


def names() -> list[str]:
    """The names of all programs."""
    return [tool.name for tool in tools()]


def cache_root() -> Path:
    """The folder of all built programs: `$XDG_CACHE_HOME/pyroclast/control-plane`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyroclast" / "control-plane"


def program(name: str, kubernetes: str = PRESENT) -> Path:
    """The built program `name`; built now if it is not there.

    Raises:
        GoMissing: it is not in the cache and there is no Go to build it with.
    """
    build([name], kubernetes)
    return _named([name], kubernetes)[0].path


def missing(wanted: Iterable[str] = (), kubernetes: str = PRESENT) -> list[str]:
    """Which of the programs are not in the cache; of all programs where none are named."""
    return [tool.name for tool in _named(wanted, kubernetes) if not tool.path.exists()]


def build(wanted: Iterable[str] = (), kubernetes: str = PRESENT) -> None:
    """Build what is missing. Two callers at once build once: the second waits for the first."""
    absent = missing(wanted, kubernetes)
    if not absent:
        return
    if shutil.which("go") is None:
        raise GoMissing(f"no Go on this machine to build {', '.join(absent)}; install Go 1.26 or newer")
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for tool in _named(absent, kubernetes):
            if not tool.path.exists():
                _build(tool)


def _named(wanted: Iterable[str], kubernetes: str) -> list[Tool]:
    usual = {tool.name: tool for tool in tools(kubernetes)}
    by_name = usual | {tool.name: tool for tool in (*of_nodes(), skaffold(), kueue())}
    return [by_name[name] for name in wanted] or list(usual.values())


def _build(tool: Tool) -> None:
    print(f"building {tool.name} (once; minutes)", flush=True)
    unfinished = tool.path.with_suffix(".building")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    flags = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in tool.variables)])
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(unfinished), tool.package]
    environment = {**os.environ, **({"CGO_ENABLED": "0"} if tool.static else {})}
    with _module(_TOOLS_DIR / tool.module) as folder:
        subprocess.run(["nice", "-n", str(_NICENESS), *command], cwd=folder, check=True, env=environment)
    unfinished.rename(tool.path)  # the name appears only with a whole program behind it


@contextmanager
def _module(folder: Path) -> Iterator[Path]:
    """The folder in which to build: `folder` itself, or a copy of the module that its `module.sum` names.

    Raises:
        RuntimeError: the module is not what `module.sum` says.
    """
    pinned = folder / "module.sum"
    if not pinned.exists():
        yield folder
        return
    name, version, wanted = pinned.read_text().split()
    told = subprocess.run(["go", "mod", "download", "-json", f"{name}@{version}"], capture_output=True, text=True, check=True)
    found = json.loads(told.stdout)
    if found["Sum"] != wanted:
        raise RuntimeError(f"{name} {version} has the sum {found['Sum']}, not {wanted}")
    with tempfile.TemporaryDirectory() as copy:
        subprocess.run(["cp", "-r", "--no-preserve=mode", f"{found['Dir']}/.", copy], check=True)
        yield Path(copy)
