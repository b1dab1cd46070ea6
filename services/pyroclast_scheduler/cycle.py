"""One scheduling cycle: open a session over a snapshot, run the actions, close it. Pure: what it needs from outside are ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model.facts import JobFacts
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.closing import close
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.resting import freed
from pyroclast_scheduler.session.session import Action, PluginFactory, Session

__all__ = ["Culprit", "find_culprit", "run_cycle"]

# what tunes a cache and a pool of workers of the original's
_WITHOUT_EFFECT: Final = frozenset({"predicateErrorCacheEnable", "topologyAwarePreemptWorkerNum"})


@dataclass(frozen=True, slots=True)
class Culprit:
    """The object that makes a cycle fail: `kind` is podgroup, queue or node."""

    kind: str
    key: str


def run_cycle(
    snapshot: Snapshot,
    configuration: Configuration,
    *,
    actions: Mapping[str, Action],
    plugins: Mapping[str, PluginFactory],
    ports: Ports,
    uid: str,
) -> Outcome:
    """Decide. Commits leave through the port as they are made; the outcome holds the rest."""
    session = _opened(snapshot, partial(Session, configuration=configuration, plugins=plugins, ports=ports, uid=uid))
    for name in configuration.actions:
        arguments = session.arguments_of(name)
        ports.observe(name, "action", partial(actions[name], session, arguments))
        unknown = [f"argument {key} is unknown" for key in arguments.unknown() if key not in _WITHOUT_EFFECT]
        session.warnings += [f"action {name}: {text}" for text in (*arguments.warnings, *unknown)]
    outcome = close(session, timestamp=format_time(ports.now))
    session.end()
    return outcome


def _opened(snapshot: Snapshot, session_of: Callable[[Snapshot], Session]) -> Session:
    """A session with the jobs whose limits hold no more, opened anew if there are any: plugins look at its jobs when it opens."""
    session = session_of(snapshot)
    woken = freed(session)
    if not woken:
        return session
    session.end()
    return session_of(replace(snapshot, limited={key: limit for key, limit in snapshot.limited.items() if key not in woken}))


def find_culprit(snapshot: Snapshot, fails: Callable[[Snapshot], bool]) -> Culprit | None:
    """The object because of which `fails` is true of `snapshot`: without it, and those behind it, it is not.

    None where it fails for another reason. `fails` is asked about as many parts of the snapshot as halving takes, and must not
    keep what it is given.
    """
    if not fails(_part(snapshot, jobs=())):
        jobs = list(snapshot.jobs)
        found = jobs[_first(len(jobs), lambda count: fails(_part(snapshot, jobs=jobs[:count])))]
        return Culprit("podgroup", found.key)
    if not fails(_part(snapshot, jobs=(), queues=())):
        queues = sorted(snapshot.queues)
        return Culprit("queue", queues[_first(len(queues), lambda count: fails(_part(snapshot, jobs=(), queues=queues[:count])))])
    if not fails(_part(snapshot, jobs=(), rows=0)):
        row = _first(len(snapshot.names), lambda count: fails(_part(snapshot, jobs=(), rows=count)))
        return Culprit("node", snapshot.names[row])
    return None


def _first(count: int, fails: Callable[[int], bool]) -> int:
    """The position of the first of `count` things with which it fails; all of them together fail."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return low


def _part(
    snapshot: Snapshot, *, jobs: Sequence[JobFacts], queues: Sequence[str] | None = None, rows: int | None = None
) -> Snapshot:
    """A snapshot of its own with these jobs only, these queues (None: all), and that many of the first nodes (None: all)."""
    is_ready = snapshot.is_ready.copy()
    if rows is not None:
        is_ready[rows:] = False
    kept = snapshot.queues if queues is None else {name: snapshot.queues[name] for name in queues}
    sums = {name: each for name, each in snapshot.queue_sums.items() if name in kept}
    return replace(snapshot, jobs=jobs, queues=kept, queue_sums=sums, is_ready=is_ready, columns=snapshot.columns.copy())
