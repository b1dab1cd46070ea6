"""What Pyroclast and others take for the same load on the same control plane, in turn: ours, theirs, ours, theirs.

    python -m tests.bench.peers NAME… [--kubernetes 1.36|1.37] [--nodes 100] [--scale 1] [--rounds 2]

NAME is a load of kube-scheduler, of Kueue with kube-scheduler, or of KAI, which only we run: its own published time is shown
beside it. `--scale` divides the number of pods or Jobs. Of several runs the median is shown, and all of them behind it. No client
has a limit of requests per second. The API server does not wait for the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyroclast.api.types import NODES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from tests.bench.peers import kai, kube_scheduler, kueue
from tests.bench.peers.arena import OURS, THEIRS, Arena, Item, Outcome, Side, Task
from tests.bench.throughput import IN_FLIGHT
from tests.bench.usage import fixed_loop
from tests.control_plane import build
from tests.control_plane.real import NATIVE, PLAIN
from tests.e2e.support import kueue as manager
from tests.e2e.support.cluster import Cluster, running

SCHEDULER = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
  - name: pdb
  - name: capacity
    enableHierarchy: true
- plugins:
  - name: predicates
  - name: network-topology-aware
  - name: nodeorder
"""
BOTH = ("kube-apiserver", "etcd", "nodes")


def main() -> None:
    options = _options()
    names: list[str] = options.names
    unknown = set(names) - {*kube_scheduler.LOADS, *kueue.LOADS, *kai.CASES}
    if unknown:
        raise SystemExit(f"no load {', '.join(sorted(unknown))}")
    for loads, measure in ((kube_scheduler.LOADS, _kube_scheduler), (kueue.LOADS, _kueue), (kai.CASES, _kai)):
        if chosen := [name for name in names if name in loads]:
            measure(chosen, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help=", ".join([*kube_scheduler.LOADS, *kueue.LOADS, *kai.CASES]))
    parser.add_argument("--kubernetes", choices=[build.PRESENT, build.NEXT], default=build.PRESENT)
    parser.add_argument("--nodes", type=int, default=100, help="of kube-scheduler's and Kueue's loads")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    return parser.parse_args()


@contextlib.contextmanager
def _cluster(options: argparse.Namespace, nodes: int, *, rival: bool = True, resource: str = "") -> Iterator[Cluster]:
    flavour = NATIVE if options.kubernetes == build.NEXT else PLAIN
    flags = ("--node-resource", resource) if resource else ()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            "real", Path(folder), nodes=nodes, scheduler=SCHEDULER, flavour=flavour, kube_scheduler=rival, flags=flags
        ) as cluster,
    ):
        yield cluster


def _in_turn(
    cluster: Cluster,
    further: dict[str, int],
    shared: Sequence[Item],
    loads: dict[str, tuple[str, Callable[[Side], Task]]],
    rounds: int,
    prepare: Callable[[Client], Any] | None = None,
) -> None:
    async def measure() -> None:
        async with Client(load_config(str(cluster.kubeconfig)), max_in_flight=IN_FLIGHT) as client:
            arena = Arena(cluster, client, further)
            await arena.create("default", shared)
            if prepare is not None:
                await prepare(client)
            for name, (about, task) in loads.items():
                outcomes: dict[Side, list[Outcome]] = {OURS: [], THEIRS: []}
                pace = [fixed_loop()]
                for _ in range(rounds):
                    for side in (OURS, THEIRS):
                        async with arena.only(side):
                            outcomes[side].append(await arena.run(task(side)))
                    pace.append(fixed_loop())
                _print(name, about, task(OURS).count, outcomes, pace)

    asyncio.run(measure())


def _kube_scheduler(names: list[str], options: argparse.Namespace) -> None:
    loads = kube_scheduler.LOADS
    if options.kubernetes == build.PRESENT and (lacking := [name for name in names if loads[name].has_groups]):
        raise SystemExit(f"{', '.join(lacking)}: needs PodGroups of Kubernetes: --kubernetes {build.NEXT}")

    async def label(client: Client) -> None:
        for number in range(options.nodes):
            zone = {"metadata": {"labels": {kube_scheduler.ZONE: f"z{number % kube_scheduler.ZONES}"}}}
            await client.patch(NODES, Key("", f"node-{number}"), zone, PatchKind.MERGE)

    def task_of(load: kube_scheduler.Load) -> Callable[[Side], Task]:
        return lambda side: load.task(side, max(1, load.size // options.scale), options.nodes)

    with _cluster(options, options.nodes) as cluster:
        chosen = {name: (loads[name].about, task_of(loads[name])) for name in names}
        _in_turn(cluster, {}, kube_scheduler.PRIORITIES, chosen, options.rounds, label)


def _kueue(names: list[str], options: argparse.Namespace) -> None:
    def task_of(load: kueue.Load) -> Callable[[Side], Task]:
        return lambda side: load.task(side, options.scale)

    limits = {"clientConnection": {"qps": 5000, "burst": 10000}}
    with (
        _cluster(options, options.nodes, resource="cpu=64") as cluster,
        tempfile.TemporaryDirectory() as folder,
        manager.kueue(cluster, Path(folder), **limits) as pid,
    ):
        chosen = {name: (kueue.LOADS[name].about, task_of(kueue.LOADS[name])) for name in names}
        _in_turn(cluster, {"kueue": pid}, kueue.shared(), chosen, options.rounds)


def _kai(names: list[str], options: argparse.Namespace) -> None:
    nodes = kai.NODES // options.scale
    with _cluster(options, nodes, rival=False, resource=f"{kai.GPU}={kai.GPUS}") as cluster:
        asyncio.run(kai.measure(cluster, nodes, names, options.rounds))


def _print(name: str, about: str, pods: int, outcomes: dict[Side, list[Outcome]], pace: Sequence[float]) -> None:
    """A table of medians, theirs as a multiple of ours, and all runs behind it."""
    print(f"\n{name}: {about}; {pods} pods, the fixed loop took {min(pace) * 1e3:.0f} to {max(pace) * 1e3:.0f} ms")
    print(f"  {'':34} {'ours':>10} {'theirs':>10} {'theirs/ours':>12}   all of ours | all of theirs")

    def row(what: str, figure: Callable[[Outcome], float], digits: int = 1) -> None:
        ours, theirs = ([figure(outcome) for outcome in outcomes[side]] for side in (OURS, THEIRS))
        middle, other = statistics.median(ours), statistics.median(theirs)
        ratio = f"{other / middle:.2f}" if middle else "-"
        all_of = " | ".join(" ".join(f"{each:.{digits}f}" for each in side) for side in (ours, theirs))
        print(f"  {what:34} {middle:10.{digits}f} {other:10.{digits}f} {ratio:>12}   {all_of}")

    def used(*programs: str) -> Callable[[Outcome], float]:
        return lambda outcome: sum(outcome.cpu.get(program, 0.0) for program in programs)

    row("seconds", lambda outcome: outcome.seconds, 2)
    for group in outcomes[OURS][0].waits:
        row(f"seconds to the last bind, {group}", lambda outcome, group=group: outcome.waits.get(group, 0.0), 2)
    programs = [*dict.fromkeys(program for side in (OURS, THEIRS) for program in outcomes[side][0].cpu)]
    row("CPU s, all but API server and nodes", used(*(each for each in programs if each not in BOTH)), 2)
    row("writes per pod", lambda outcome: outcome.writes.total() / pods, 2)
    for program in programs:
        row(f"CPU s, {program}", used(program), 2)
    for program in programs:
        row(f"MB, {program}", lambda outcome, program=program: outcome.memory.get(program, 0.0), 0)
    for side, found in outcomes.items():
        written = ", ".join(f"{user} {count / pods:.2f}" for user, count in found[-1].writes.most_common(8))
        print(f"  writes per pod, {side}: {written}", flush=True)


if __name__ == "__main__":
    main()
