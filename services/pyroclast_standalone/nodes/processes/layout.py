"""The files of a pod's processes: `DATA/pods/UID/` with volumes, /etc/hosts, and the state of each start of each container."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.runtime import LogLine
from pyroclast_standalone.nodes.volumes import File

_DEFAULT_PATH: Final = "/dev/termination-log"
_FALLBACK: Final = "FallbackToLogsOnError"
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
_MOST_LOG_LINES: Final = 80


def path_of(container: records.Container) -> str:
    """Return the path of the termination message inside the container."""
    return container.termination_message_path or _DEFAULT_PATH


def message_of(container: records.Container, file: Path, exit_code: int, lines: Sequence[LogLine]) -> str:
    """Return the message in `file`. If a failed container left none and its policy allows it, return the end of the log."""
    try:
        with file.open("rb") as opened:
            message = opened.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        message = ""
    if message or exit_code == 0 or container.termination_message_policy != _FALLBACK:
        return message
    text = "".join(f"{line}\n" for _, line in lines[-_MOST_LOG_LINES:])
    return text.encode()[-_MOST_LOG_BYTES:].decode(errors="ignore")


_DOMAIN = "cluster.local"

Named = tuple[str, tuple[str, ...]]
"""An address and its names."""


def names_of(address: str, *, hostname: str, subdomain: str, namespace: str) -> Named | None:
    """Return the address of a pod with its DNS names. None without a subdomain, for which DNS has no names either."""
    if not subdomain or not address:
        return None
    full = f"{hostname}.{subdomain}"
    return address, (full, f"{full}.{namespace}", f"{full}.{namespace}.svc", f"{full}.{namespace}.svc.{_DOMAIN}")


def hosts_file(own: Named, others: Iterable[Named], aliases: Iterable[Mapping[str, Any]]) -> str:
    """Return the hosts file of a pod: its own address, its host aliases, and the other pods."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", _line(own)]
    lines += [_line((str(alias.get("ip")), tuple(alias.get("hostnames") or ()))) for alias in aliases]
    lines += [_line(named) for named in sorted(others)]
    return "\n".join(lines) + "\n"


def _line(named: Named) -> str:
    return f"{named[0]}\t{' '.join(named[1])}"


@dataclass(frozen=True, slots=True)
class Running:
    """A started process. `shim` is the process id of its shim."""

    pid: int
    shim: int
    started_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a process."""

    code: int
    ended_at: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths under the data directory."""

    root: Path

    def pod(self, uid: str) -> Path:
        """Return the folder of a pod."""
        return self.root / "pods" / uid

    def volume(self, uid: str, name: str) -> Path:
        """Return the folder of a volume."""
        return self.pod(uid) / "volumes" / name

    def claim(self, namespace: str, name: str) -> Path:
        """Return the folder of a PersistentVolumeClaim. All pods with the claim share it, and it is kept after their deletion."""
        return self.root / "claims" / namespace / name

    def run(self, uid: str, container: str, attempt: int) -> Path:
        """Return the folder of one start of a container, with the files spec, log, state and exit."""
        return self.pod(uid) / "containers" / container / str(attempt)

    def running(self, uid: str, container: str, attempt: int) -> Running | None:
        """Return the process of one start of a container. None if no process was started."""
        found = read(self.run(uid, container, attempt) / "state")
        return None if found is None else Running(int(found["pid"]), int(found["shim"]), float(found["started_at"]))

    def outcome(self, uid: str, container: str, attempt: int) -> Outcome | None:
        """Return the end of one start of a container. None if the process has not ended or its end is unknown."""
        found = read(self.run(uid, container, attempt) / "exit")
        return None if found is None else Outcome(int(found["code"]), float(found["ended_at"]), str(found.get("reason", "")))

    def lines(self, uid: str, container: str, attempt: int) -> list[LogLine] | None:
        """Return the output of one start of a container, as far as it is kept. None if there was no such start."""
        file = self.run(uid, container, attempt) / "log"
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            return None
        with contextlib.suppress(FileNotFoundError):
            text = file.with_name("log.1").read_bytes() + text  # the part before the last rotation
        parted = (line.partition(b" ") for line in text.split(b"\n")[:-1])
        return [(float(stamp), line.decode(errors="replace")) for stamp, _, line in parted]

    def forget(self, uid: str) -> None:
        """Remove the folder of a pod."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)


def write_files(folder: Path, files: Mapping[str, File], owner: tuple[int, int] | None = None) -> bool:
    """Make `folder` contain exactly these files, each replaced atomically. Return whether any file changed.

    `owner`: the uid and gid of the files. The folder stays this process's own, so that nobody can put a link into it.
    """
    changed = False
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / name: file for name, file in files.items() if _is_below(Path(name))}
    for path, file in wanted.items():
        if path.is_file() and path.read_bytes() == file.content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file.mode), "wb") as target:
            target.write(file.content)
            if owner is not None:
                os.fchown(target.fileno(), *owner)
        draft.replace(path)
        changed = True
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()
        changed = True
    return changed


def _is_below(path: Path) -> bool:
    return not path.is_absolute() and ".." not in path.parts


def read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file `state` or `exit` of a shim. None before it is written."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return content
