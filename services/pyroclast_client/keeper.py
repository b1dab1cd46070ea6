"""Keeps a local control plane for a process: ends it and removes its folder when that process ends, however it does.

`python -m pyroclast_client.keeper FOLDER ARGUMENTS...` runs `pyroclast up` with these arguments and its data in FOLDER until its
standard input ends, which the operating system sees to when the parent dies. It prints what `pyroclast up` prints.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main"]

STOP_SECONDS: Final = 8.0
READ_BYTES: Final = 4096


def main(arguments: Sequence[str]) -> int:
    """Run the control plane; the exit status."""
    folder = Path(arguments[0])
    for number in (signal.SIGINT, signal.SIGTERM):  # an interrupt of the terminal is the parent's to answer
        signal.signal(number, signal.SIG_IGN)
    command = [sys.executable, "-m", "pyroclast_standalone", "up", "--data-dir", str(folder), *arguments[1:]]
    plane = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - ours
    threading.Thread(target=_stop_with_parent, args=(plane,), daemon=True).start()
    status = plane.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(plane.pid, signal.SIGKILL)  # what it could not stop any more
    shutil.rmtree(folder, ignore_errors=True)
    return status


def _stop_with_parent(plane: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), READ_BYTES):  # past the buffer, whose lock would crash an interpreter that ends first
        pass
    plane.terminate()
    try:
        plane.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        plane.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
