"""Decide a case by the engine and by the reference; `python -m tests.reference.compare FIRST LAST` prints where they differ.

After these: `network` for clusters with hypernodes (`full-network`: with gangs that evict), `more` for those with plugins beside
the usual ones, or the name of one of these; `-v` writes the cases.
"""

from __future__ import annotations

import sys
from collections import Counter

import yaml

from pyroclast_scheduler.cache.cache import Cache
from tests.reference import additions, networks
from tests.scenarios.objects import NOW
from tests.scenarios.profiles import configuration, profile_of
from tests.scenarios.runner import Seen, cycle, feed, outside

from .decide import Outcome, decide
from .generator import covered, make


def engine(case) -> Outcome:
    """What the engine makes of a case."""
    cache, seen = Cache(), Seen()
    feed(cache, case)
    cycle(cache, configuration(profile_of(case), case), seen, **outside(case))
    phases = {row[0]: dict([*row, {}][3]).get("phase", "Inqueue") for row in case["podgroups"]}
    waiting = (name for name, phase in phases.items() if phase in {"Pending", "Inqueue"})  # the close changes the phase of others
    held_back = sorted(name for name in waiting if seen.phases.get(name, phases[name]) == "Pending")
    reserved = {
        job: (state.scope, [lock.node for lock in state.locks], past(state.promise), past(state.fill_until))
        for job, state in seen.reservations.items()
    }
    return Outcome(seen.binds, sorted(seen.evicted), seen.pipelined, held_back, is_doubtful=False, reserved=reserved)


def past(time: float | None) -> float | None:
    """Seconds from the session on."""
    return None if time is None else time - NOW


def differences(case) -> dict[str, tuple]:
    """What the two disagree about: {what: (engine, reference)}; not what hangs on the last bit of a score."""
    ours, theirs = engine(case), decide(case)
    if any(action.startswith("gang") for action in case["profile"]["actions"]):  # where promises are is not said
        for each in (ours, theirs):
            each.pipelined = {job: [""] * len(nodes) for job, nodes in each.pipelined.items()}
    found = {
        what: (getattr(ours, what), getattr(theirs, what))
        for what in ("binds", "evicted", "pipelined", "held_back", "reserved")
        if getattr(ours, what) != getattr(theirs, what)
    }
    return {} if theirs.is_doubtful else found


def written(case) -> str:
    """The case as the files of scenarios have it, an object a line."""
    lines = [f"- id: {case['id']}"]
    for key, value in case.items():
        if isinstance(value, list):
            lines += [f"  {key}:", *(f"  - {line_of(each)}" for each in value)]
        elif key != "id":
            lines.append(f"  {key}: {line_of(value)}")
    return "\n".join(lines)


def line_of(value) -> str:
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=True, width=10**6).strip()


def maker_of(words: list[str]):
    """What makes the clusters that these words name."""
    if "network" in words:
        return networks.make
    if "full-network" in words:
        return networks.make_full
    if "more" in words:
        return additions.make
    name = next((word for word in words if word in additions.ADDITIONS), None)
    return make if name is None else lambda seed: additions.make(seed, name)


def main(first: int, last: int) -> int:
    """Compare the clusters of these seeds; a count per pair of action and plugin."""
    pairs: Counter[tuple[str, str]] = Counter()
    maker, wrong = maker_of(sys.argv[3:]), 0
    for seed in range(first, last):
        case = maker(seed)
        pairs.update(covered(case))
        found = differences(case)
        if found:
            wrong += 1
            print(f"seed {seed}: {found}")
            if "-v" in sys.argv:
                print(written(case))
    for pair, number in sorted(pairs.items()):
        print(*pair, number)
    print(f"{last - first - wrong} of {last - first} clusters decided alike")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
