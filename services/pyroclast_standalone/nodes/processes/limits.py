"""The limits of containers that are processes: control groups where they can be written, otherwise sampling and affinity.

Each start of a container gets a group of its own (version 2: all controllers in one folder; version 1: a folder for each
controller). The kernel then stops the container at its memory limit, and slows it at its CPU limit. Without writable
groups, the shim adds up the memory of the container's processes and kills them above the limit, and the container runs on as many
processors as its CPU limit, rounded up.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.nodes import records

_PERIOD: Final = 100_000  # microseconds, as kubelets use


@dataclass(frozen=True, slots=True)
class Amounts:
    """The limits and the request of a container. None without a limit."""

    cpu_limit: int | None  # thousandths
    cpu_request: int
    memory_limit: int | None  # bytes

    @classmethod
    def of(cls, container: records.Container) -> Amounts:
        """Return the amounts in the spec of `container`. A limit without a request is also the request, as in the API."""
        limits, requests = container.resources.limits, container.resources.requests
        cpu, memory = _millis(limits, "cpu"), _millis(limits, "memory")
        return cls(cpu, _millis(requests, "cpu") or cpu or 0, None if memory is None else memory // 1000)

    @property
    def processors(self) -> int | None:
        """How many processors a container without a group may use: its CPU limit, rounded up. None without a limit."""
        return None if self.cpu_limit is None else max(1, -(-self.cpu_limit // 1000))

    @property
    def threads(self) -> int | None:
        """How many threads of computation the container should have: its CPU request in whole processors. None without one."""
        return max(1, self.cpu_request // 1000) if self.cpu_request else None


def _millis(quantities: Mapping[str, Any], name: str) -> int | None:
    return quantity.parse(str(quantities[name])).millis if name in quantities else None


@dataclass(frozen=True, slots=True)
class Groups:
    """The folders below which groups are made: `memory` and `cpu` are the same with version 2, and None where not writable."""

    version: int = 0
    memory: Path | None = None
    cpu: Path | None = None

    def __str__(self) -> str:
        by_group = [name for name, folder in (("memory", self.memory), ("cpu", self.cpu)) if folder]
        others = [text for text, folder in (("memory by sampling", self.memory), ("CPUs by affinity", self.cpu)) if not folder]
        return ", ".join([*([f"{' and '.join(by_group)} by cgroup v{self.version}"] if by_group else []), *others])

    def make(self, name: str, amounts: Amounts) -> list[Path]:
        """Make the groups of one start of a container, with its limits. Return their folders."""
        made = []
        for folder in {each for each in (self.memory, self.cpu) if each is not None}:
            group = folder / name
            group.mkdir(parents=True, exist_ok=True)
            for file, text in self._settings(amounts):
                if (group / file).exists():
                    (group / file).write_text(text)
            made.append(group)
        return made

    def _settings(self, amounts: Amounts) -> list[tuple[str, str]]:
        """Return the files and their texts. Files that a group does not have, such as those of swap, are left out."""
        shares = max(2, amounts.cpu_request * 1024 // 1000)
        weight = 1 + (min(shares, 262144) - 2) * 9999 // 262142  # as kubelets convert shares
        settings = [("cpu.shares", str(shares)), ("cpu.weight", str(weight)), ("memory.oom.group", "1")]
        if amounts.memory_limit is not None:
            limit = str(amounts.memory_limit)
            settings += [("memory.max", limit), ("memory.swap.max", "0")]
            settings += [("memory.limit_in_bytes", limit), ("memory.memsw.limit_in_bytes", limit)]
        if amounts.cpu_limit is not None:
            quota = max(1000, amounts.cpu_limit * _PERIOD // 1000)
            settings += [("cpu.max", f"{quota} {_PERIOD}"), ("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]
        return settings

    def sweep(self, is_alive: Callable[[str], bool]) -> None:
        """Remove the groups whose names `is_alive` denies, which a killed shim has left. Those that still have processes stay."""
        for folder in {each for each in (self.memory, self.cpu) if each is not None}:
            for group in [each for each in folder.iterdir() if each.is_dir() and not is_alive(each.name)]:
                with contextlib.suppress(OSError):
                    group.rmdir()

    def remove(self) -> None:
        """Remove all groups, at the end of the service. If a container goes on, its own stays."""
        self.sweep(lambda _: False)
        for folder in {each for each in (self.memory, self.cpu) if each is not None}:
            with contextlib.suppress(OSError):
                folder.rmdir()


def find_groups(name: str, root: Path = Path("/sys/fs/cgroup"), own: str = "") -> Groups:
    """Return where groups can be made, in folders `name`. `own` is the text of /proc/self/cgroup, by default of this process."""
    own = own or Path("/proc/self/cgroup").read_text()
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    if (root / "cgroup.controllers").exists():
        # beside the group of this process, because a group with processes has no groups with controllers below it
        parent = root / paths.get("", "/").strip("/")
        folder = _writable((parent.parent if parent != root else root) / name, enable=("memory", "cpu"))
        return Groups(2, folder, folder)
    found = {kind: _writable(root / kind / paths.get(kind, "/").strip("/") / name) for kind in ("memory", "cpu")}
    return Groups(1, found["memory"], found["cpu"])


def _writable(folder: Path, *, enable: tuple[str, ...] = ()) -> Path | None:
    """Return `folder`, made where it is missing. None if that is not allowed, or if the kernel offers no such controllers."""
    try:
        if not os.access(folder.parent, os.W_OK):
            return None
        for name in enable:
            (folder.parent / "cgroup.subtree_control").write_text(f"+{name}")
        folder.mkdir(exist_ok=True)
        for name in enable:
            (folder / "cgroup.subtree_control").write_text(f"+{name}")
        return folder if (folder / "cgroup.procs").exists() else None
    except OSError:
        return None
