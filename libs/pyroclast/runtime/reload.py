"""`python -m pyroclast.runtime.reload MODULE ARGS…`: runs a program, and restarts it whenever its Python files change.

For development, when files are copied into a running container, whose restart would lose them. The reloader is a separate
process, because it must outlive the program. It imports nothing that could change while it runs.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOOK_SECONDS = 0.5
_END_SECONDS = 30.0  # seconds for a program to stop

Stamps = Mapping[Path, int]


class _Reloader:
    """One program and the folders of its files."""

    def __init__(self, command: Sequence[str], folders: Sequence[Path]) -> None:
        self._command, self._folders = command, folders
        self._stopping = False
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self, *_: object) -> None:
        """Pass SIGTERM on to the program; `run` returns when the program has ended."""
        self._stopping = True
        if self._child is not None:
            self._child.terminate()

    def run(self) -> int:
        """Run until stopped, or until the program ends by itself without an error; return the exit status."""
        while not self._stopping:
            seen = _debounced(self._folders)
            self._child = child = subprocess.Popen(self._command)  # noqa: S603 - our own interpreter
            if self._stopping:  # an earlier signal found no child to terminate
                child.terminate()
            while child.poll() is None and (self._stopping or _stamps(self._folders) == seen):
                time.sleep(_LOOK_SECONDS)
            if child.poll() is None:
                _say(f"files changed: {self._command[2]} starts anew")
                _end(child)
            elif self._stopping or child.returncode == 0:
                return child.returncode if child.returncode >= 0 else 128 - child.returncode
            else:
                # A changed file often has an error that its next version corrects. The liveness probe ends a lasting failure.
                _say(f"exit code {child.returncode}: waits for a change")
                while not self._stopping and _stamps(self._folders) == seen:
                    time.sleep(_LOOK_SECONDS)
        return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the module named by the first argument with the other arguments; return the exit status."""
    module, *arguments = sys.argv[1:] if argv is None else argv
    reloader = _Reloader([sys.executable, "-m", module, *arguments], _folders({"pyroclast", module.partition(".")[0]}))
    signal.signal(signal.SIGTERM, reloader.stop)
    signal.signal(signal.SIGINT, reloader.stop)
    return reloader.run()


def _folders(packages: set[str]) -> list[Path]:
    specs = filter(None, map(importlib.util.find_spec, packages))
    return [Path(folder) for spec in specs for folder in spec.submodule_search_locations or ()]


def _stamps(folders: Sequence[Path]) -> Stamps:
    found = {}
    for folder in folders:
        for path in folder.rglob("*.py"):
            try:
                found[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # being replaced at this moment
                continue
    return found


def _debounced(folders: Sequence[Path]) -> Stamps:
    """Return the stamps once two checks in a row agree, because several files are copied one after the other."""
    seen = _stamps(folders)
    while True:
        time.sleep(_LOOK_SECONDS)
        if (now := _stamps(folders)) == seen:
            return seen
        seen = now


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
