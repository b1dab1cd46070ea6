"""What a process used so far, as the kernel counts it, and the pace of the machine meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int | str = "self", field: str = "VmRSS") -> float:
    """Resident MB now, or with `VmHWM` the most so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6


def fixed_loop(rounds: int = 300_000) -> float:
    """CPU seconds of a fixed piece of work."""
    cpu, total = time.process_time(), 0
    for number in range(rounds):
        total += number & 7
    return time.process_time() - cpu
