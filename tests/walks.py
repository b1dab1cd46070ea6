"""How many modules a decision passes through: a Job's decision, `allocate` with a gang, and `vcctl explain`.

`python -m tests.walks` prints, for each walk, the modules of which a function ran and how often control passed from one module to
another. `--modules` lists them. A reader of the decision opens these modules, so a rising number is a longer way. Each walk also
names packages that a reader does not open, and they are counted apart: plugins and tables of the scheduler, and
the transport of requests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (str(ROOT / "libs") + "/", str(ROOT / "services") + "/")


@dataclass
class Walk:
    """The modules of ours in the order of their first call, and the number of passages between two of them."""

    modules: dict[str, int] = field(default_factory=dict)
    passages: int = 0
    _stack: list[str] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(SOURCES) or code.co_name == "<module>":
            return
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        module = code.co_filename.split("/libs/")[-1].split("/services/")[-1]
        if not self._stack or self._stack[-1] != module:
            self.passages += 1
        self._stack.append(module)
        self.modules[module] = self.modules.get(module, 0) + 1


@contextlib.contextmanager
def walking() -> Iterator[Walk]:
    """Record the calls of this thread."""
    walk = Walk()
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def recorded(function: Callable[..., Any], walks: list[Walk]) -> Callable[..., Any]:
    """Return `function` with a record of each of its calls in `walks`."""

    def call(*given: Any, **named: Any) -> Any:
        with walking() as walk:
            result = function(*given, **named)
        walks.append(walk)
        return result

    return call


def job_decision() -> Walk:
    """The longest of all decisions in the table of a Job's cases."""
    walks: list[Walk] = []
    module = importlib.import_module("pyroclast.lifecycle.job.decide")
    module.decide = recorded(module.decide, walks)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["-q", "-p", "no:xdist", str(ROOT / "tests/unit/lifecycle"), "-k", "not world and not soak"])
    return max(walks, key=lambda walk: (len(walk.modules), walk.passages))


def allocate_gang() -> Walk:
    """`allocate` of a gang of four pods that fits on two of three nodes, with the default configuration."""
    from pyroclast_scheduler import registry
    from pyroclast_scheduler.cache.cache import Cache
    from pyroclast_scheduler.cycle import run_cycle
    from pyroclast_scheduler.session.configuration import DEFAULT_CONFIGURATION, parse
    from pyroclast_scheduler.session.ports import Ports
    from tests.scenarios import objects

    cache = Cache()
    for index in range(3):
        cache.node_changed(None, objects.node([f"n{index}", "4", "8Gi"]))
    cache.queue_changed(None, objects.queue(["default"]))
    cache.group_changed(None, objects.pod_group(["gang", "default", 4, {"phase": "Inqueue"}]))
    for index in range(4):
        cache.pod_changed(None, objects.pod([f"gang-{index}", "gang", "", "2", "1Gi", {"phase": "Pending"}]))
    walks: list[Walk] = []
    actions = dict(registry.actions())
    actions["allocate"] = recorded(actions["allocate"], walks)
    configuration = parse(DEFAULT_CONFIGURATION, actions=registry.actions(), plugins=registry.plugins())
    commits: list[Any] = []
    ports = Ports(objects.NOW, commits.append)
    run_cycle(cache.snapshot(), configuration, actions=actions, plugins=registry.plugins(), ports=ports, uid="u")
    if sum(len(each.placed) for commit in commits for each in commit.binds) != 4:
        raise SystemExit("the gang was not placed")
    return walks[0]


def vcctl_explain() -> Walk:
    """`vcctl explain` of a waiting Job, from the command line to the printed answer, without imports and the server."""
    from pyroclast_cli import programs
    from tests.unit.cli.golden.server import serving

    with serving() as url, contextlib.redirect_stdout(io.StringIO()):
        arguments = ["explain", "second", "-n", "team", "--master", url]
        programs.vcctl(arguments)
        with walking() as walk:
            programs.vcctl(arguments)
    return walk


# the walk, and the packages beside its way
WALKS: dict[str, tuple[Callable[[], Walk], tuple[str, ...]]] = {
    "a Job's decision (longest case of the table)": (job_decision, ()),
    "allocate with a gang": (
        allocate_gang,
        ("pyroclast/", "pyroclast_scheduler/cache/", "pyroclast_scheduler/model/", "pyroclast_scheduler/plugins/"),
    ),
    "vcctl explain": (vcctl_explain, ("pyroclast/kube/", "pyroclast/runtime/", "pyroclast/lean")),
}


def main() -> None:
    """Print the walks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", action="store_true", help="list the modules of each walk, with the number of calls")
    options = parser.parse_args()
    for name, (take, beside) in WALKS.items():
        walk = take()
        count = sum(not module.startswith(beside) for module in walk.modules) if beside else len(walk.modules)
        print(f"{name}: {count} modules and {len(walk.modules) - count} beside, {walk.passages} passages")
        if options.modules:
            print(*(f"    {calls:6} {module}" for module, calls in walk.modules.items()), sep="\n")


if __name__ == "__main__":
    main()
