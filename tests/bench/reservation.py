"""`python -m tests.bench.reservation`: what it costs to keep nodes for large jobs, over a day in virtual time.

100 nodes, small jobs of 2 to 60 minutes of which 40 always wait, and a large job for half of the cluster now and then. A line per
run: how many large jobs started, how long they waited, by how much their promise was missed, and the utilisation. `--figures
FILE` writes them, and `--plot FILE` draws from those figures what the documentation shows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.bench.reservation_day import Day, Run, live
from tests.bench.reservation_plot import draw

_HOURS: Final = 3600.0
_ORDERS: Final = [
    Day(f"{order}, {locks} per cycle", f"nodeOrder: {order}, locksPerCycle: {locks}", seconds=6 * _HOURS, every=2 * _HOURS)
    for order in ("capacity", "idle")
    for locks in ("1", "4", "all")
]
DAYS: Final = [
    Day("small jobs only", None, every=0),
    Day("no reservation", None),
    Day("no estimates", "locksPerCycle: 4"),
    Day("honest estimates", "locksPerCycle: 4", (1.0,)),
    Day("honest estimates, fill off", "locksPerCycle: 4, fill: false", (1.0,)),
    Day("estimates wrong by two", "locksPerCycle: 4", (0.5, 2.0)),
    *_ORDERS,
]


def figures(run: Run) -> dict[str, Any]:
    """What is told of a run, seconds and parts of 1."""
    return {
        "name": run.day.name,
        "hours": run.day.seconds / _HOURS,
        "utilisation": round(run.utilisation, 4),
        "large": len(run.large),
        "started": len(run.waits),
        "waits": run.waits,
        "lateness": run.lateness,
        "small": run.small_done,
        "samples": [[each.time, each.locked, round(each.idle, 3)] for each in run.samples],
    }


def line(told: dict[str, Any]) -> str:
    """A row of the table."""
    waits, lateness = told["waits"], told["lateness"]
    wait = f"{statistics.mean(waits) / 60:5.0f} {max(waits) / 60:5.0f}" if waits else "    -     -"
    late = f"{max(lateness) / 60:6.1f}" if lateness else "     -"
    return (
        f"{told['name']:<28} {told['hours']:3.0f} h  {told['started']}/{told['large']} started  wait {wait} min (mean, longest)  "
        f"late {late} min  utilisation {told['utilisation']:.3f}  small {told['small']}"
    )


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--figures", type=Path, help="write what was found, or with --plot alone: read it")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--draw-only", action="store_true", help="run nothing; draw from --figures")
    options = parser.parse_args()
    if options.draw_only:
        found = json.loads(options.figures.read_text())
    else:
        found = []
        days = [day for day in DAYS if options.only in day.name]
        with ProcessPoolExecutor(options.processes) as pool:
            for run in pool.map(live, days):
                found.append(figures(run))
                sys.stdout.write(line(found[-1]) + "\n")
                sys.stdout.flush()
                if options.figures:
                    rows = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
                    options.figures.write_text(f"[\n{rows}\n]\n")
    if options.plot:
        options.plot.write_text(draw(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
