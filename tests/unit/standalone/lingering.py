"""A program that says when it is asked to end, and ends when the logs that it is given say so of others too."""

import signal
import sys
import time
from pathlib import Path


def end(_signal: int, _frame: object) -> None:
    print("asked", time.monotonic(), flush=True)
    while not all("asked" in Path(log).read_text() for log in sys.argv[1:]):
        time.sleep(0.01)
    print("ended", time.monotonic(), flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
