"""A program that says when it is asked to end, and takes a moment to."""

import signal
import sys
import time


def end(_signal: int, _frame: object) -> None:
    print("asked", time.monotonic(), flush=True)
    time.sleep(0.5)
    print("ended", time.monotonic(), flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
