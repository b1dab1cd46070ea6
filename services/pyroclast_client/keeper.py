"""Runs a local control plane for another process. Stops it and removes its folder when that process ends in any way.

`python -m pyroclast_client.keeper FOLDER ARGUMENTS...` runs `pyroclast up` with these arguments and with its data in FOLDER. The
control plane stops when the standard input ends. The operating system closes that pipe when the parent process dies. The program
prints the output of `pyroclast up`.
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

STOP_SECONDS: Final = 8.0
READ_BYTES: Final = 4096


def main(arguments: Sequence[str]) -> int:
    """Run the control plane. Return the exit status."""
    folder = Path(arguments[0])
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent process handles an interrupt of the terminal
        signal.signal(number, signal.SIG_IGN)
    command = [sys.executable, "-m", "pyroclast_standalone", "up", "--data-dir", str(folder), *arguments[1:]]
    plane = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - a fixed command
    threading.Thread(target=_stop_with_parent, args=(plane,), daemon=True).start()
    status = plane.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(plane.pid, signal.SIGKILL)  # the processes that the control plane did not stop
    shutil.rmtree(folder, ignore_errors=True)
    return status


def _stop_with_parent(plane: subprocess.Popen[bytes]) -> None:
    # not through the buffer, whose lock would crash an interpreter that exits before this thread
    while os.read(sys.stdin.fileno(), READ_BYTES):
        pass
    plane.terminate()
    try:
        plane.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        plane.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
