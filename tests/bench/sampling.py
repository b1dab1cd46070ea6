"""Where a program spends its CPU time: `python -m tests.bench.sampling FILE MODULE [ARGUMENT…]`.

Runs a module as a program and looks at its stack after every millisecond or so of CPU time, so what is told is hardly distorted,
and others on the machine do not count. At its end FILE says for each function in how many of the samples, in per cent, it was
running itself and in how many it was on the stack.
"""

from __future__ import annotations

import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

SECONDS = 0.002
"""CPU time between samples; kernels round it up to their tick."""
DEEPEST = 60
LINES = 400


class Samples:
    """Counts functions on the stack."""

    def __init__(self) -> None:
        self.total = 0
        self.itself: Counter[str] = Counter()
        self.on_stack: Counter[str] = Counter()

    def take(self, _signal: int, frame: FrameType | None) -> None:
        """Note the stack."""
        self.total += 1
        seen: set[str] = set()
        while frame is not None and len(seen) < DEEPEST:
            code = frame.f_code
            name = f"{'/'.join(code.co_filename.split('/')[-2:])}:{code.co_firstlineno} {code.co_qualname}"
            if not seen:
                self.itself[name] += 1
            seen.add(name)
            frame = frame.f_back
        self.on_stack.update(seen)

    def text(self) -> str:
        """The table, dearest first."""
        rows = [f"{self.total} samples; per cent on the stack, per cent itself"]
        for name, count in self.on_stack.most_common(LINES):
            rows.append(f"{100 * count / self.total:6.1f} {100 * self.itself[name] / self.total:6.1f}  {name}")
        return "\n".join(rows) + "\n"


def main() -> None:
    """Run the module under the timer."""
    out, module, *arguments = sys.argv[1:]
    samples = Samples()
    signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(out).write_text(samples.text())


if __name__ == "__main__":
    main()
