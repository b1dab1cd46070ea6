"""One scheduling cycle: opens a session over a snapshot, runs the actions and closes it; and finds the cause if this fails.

The code is pure, and its inputs from outside are ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from pyroclast.api.records.meta import Record
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model.snapshot import ItemKind, Snapshot, SnapshotItem, SnapshotPart
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Action, PluginFactory, Session
from pyroclast_scheduler.session.session_close import close

# arguments for a cache and a worker pool of Volcano
_WITHOUT_EFFECT: Final = frozenset({"predicateErrorCacheEnable", "topologyAwarePreemptWorkerNum"})
_CULPRITS: Final = {ItemKind.JOB: "podgroup", ItemKind.QUEUE: "queue", ItemKind.NODE: "node", ItemKind.OBJECT: "object"}


@dataclass(frozen=True, slots=True)
class Culprit:
    """The object or plugin that makes a cycle fail. `kind`: podgroup, queue, node, object (of the type `record`) or plugin."""

    kind: str
    key: str
    record: type[Record] | None = None


def run_cycle(
    snapshot: Snapshot,
    configuration: Configuration,
    *,
    actions: Mapping[str, Action],
    plugins: Mapping[str, PluginFactory],
    ports: Ports,
    uid: str,
) -> Outcome:
    """Run one session. Binds and evictions are sent through the port as they are committed; the outcome has all other results."""
    session = Session(snapshot, configuration=configuration, plugins=plugins, ports=ports, uid=uid)
    for name in configuration.actions:
        arguments = session.arguments_of(name)
        ports.observe(name, "action", partial(actions[name], session, arguments))
        session.report.warnings += [f"action {name}: {text}" for text in arguments.problems(_WITHOUT_EFFECT)]
    outcome = close(session, timestamp=format_time(ports.now))
    session.end()
    return outcome


def find_culprit(snapshot: Snapshot, fails: Callable[[Snapshot], bool]) -> Culprit | None:
    """Return the object without which `fails` is false for `snapshot`; None if the failure has another reason or does not recur.

    `fails` is called a logarithmic number of times, and must not keep its argument.

    Kinds of items are removed one after another until the cycle succeeds. This does not prove that an item of the last kind is
    the cause: a broken node may fail with each job that is tried on it. The cause is therefore an item whose removal alone is
    enough, jobs first. If there is no such item, several items of the last kind fail.
    """

    def still(part: SnapshotPart) -> bool:
        return fails(part.made())

    part = SnapshotPart(snapshot)
    if not still(part):
        return None
    kinds = list(ItemKind)
    for at, kind in enumerate(kinds):
        items = part.items(kind)
        rest = part.without(items)
        if not items or still(rest):
            part = rest
            continue
        suspects = _suspects(part, kinds[at:], still)
        first = next(suspects)
        proven = next((each for each in chain([first], suspects) if not still(part.without([each]))), first)
        # a failure that ended by itself looks as if the removal of the last item had ended it
        return Culprit(_CULPRITS[proven.kind], proven.key, proven.record) if still(part) else None
    return None


def find_failing_plugin(
    snapshot: Snapshot, configuration: Configuration, fails: Callable[[Snapshot, Configuration], bool]
) -> Culprit | None:
    """Return the plugin that fails even without any objects; None if there is none."""
    part = SnapshotPart(snapshot)
    nothing = part.without([item for kind in ItemKind for item in part.items(kind)])
    names = list(dict.fromkeys(entry.name for tier in configuration.tiers for entry in tier))

    def still(count: int) -> bool:
        return fails(nothing.made(), configuration.without(names[count:]))

    if still(0) or not still(len(names)):
        return None
    found = names[_first(len(names), still)]
    return Culprit("plugin", found) if still(len(names)) else None


def _suspects(part: SnapshotPart, kinds: Sequence[ItemKind], fails: Callable[[SnapshotPart], bool]) -> Iterator[SnapshotItem]:
    """Yield the first failing item of the first of `kinds`, then those of other kinds.

    The only item of a kind, and a queue whose jobs were not removed, prove nothing, since nothing is decided without them.
    """
    for at, kind in enumerate(kinds):
        items = part.items(kind)
        if at and (kind is ItemKind.QUEUE or len(items) < 2 or fails(part.without(items))):
            continue
        yield _first_thing(part, items, fails)


def _first_thing(part: SnapshotPart, items: Sequence[SnapshotItem], fails: Callable[[SnapshotPart], bool]) -> SnapshotItem:
    return items[_first(len(items), lambda count: fails(part.without(items[count:])))]


def _first(count: int, fails: Callable[[int], bool]) -> int:
    """Return the position of the first of `count` items with which the cycle fails. All of them together fail."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return low
