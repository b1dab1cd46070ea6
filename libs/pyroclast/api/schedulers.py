"""Which schedulers lead, according to their Leases; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

SCHEDULER_NAMES: Final = "pyroclast.dev/scheduler-names"
"""An annotation of a Lease: the comma-separated names by which pods request the scheduler that holds the Lease."""

NOT_OF_NODES: Final = "metadata.namespace!=kube-node-lease"
"""A field selector that excludes the Leases of kubelets, one for each node, none of which belongs to a scheduler."""

SILENT_SECONDS: Final = 30.0
"""The greatest age, in seconds, of the last renewal of a live Lease. A replaced leader has a successor long before that."""

_OF_KUBERNETES: Final = {"kube-scheduler": "default-scheduler"}
"""Leases of schedulers that pods name differently, and that have no annotation with their names."""

_MEMBER: Final = re.compile(r"(.+)-[0-9]+")
"""The name of the Lease of one of several members or shards."""


@dataclass(frozen=True, slots=True, order=True)
class SilentLeader:
    """A leader that no longer renews its Lease: the Lease, `namespace/name`, and the time of its last renewal."""

    lease: str
    renewed: str


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The schedulers in the Leases of a cluster, by the names in `schedulerName` of pods.

    A Lease without the annotation of names may belong to any program; it counts for its own name.

    Attributes:
        live: names of schedulers that have renewed their Lease recently.
        silent: all other names that have a Lease.
        announced: names that certainly belong to a scheduler.
        at: when the Leases were read, in seconds since the epoch.
    """

    live: frozenset[str] = frozenset()
    silent: Mapping[str, SilentLeader] = field(default_factory=dict)
    announced: frozenset[str] = frozenset()
    at: float = field(default=0.0, compare=False)

    def is_known(self, name: str) -> bool:
        """Whether there is a Lease of that name, however old."""
        return name in self.live or name in self.silent

    @property
    def at_work(self) -> list[str]:
        """The live names that certainly belong to schedulers."""
        return sorted(self.announced & self.live)

    def absence(self, name: str) -> str:
        """Return why no scheduler serves `name`, and which schedulers lead; empty when a scheduler serves it."""
        if name in self.live:
            return ""
        others = ", ".join(self.at_work) or "none"
        if (leader := self.silent.get(name)) is not None:
            since = f"its Lease {leader.lease} was last renewed at {leader.renewed}"
            return f'scheduler "{name}" is silent: {since}; schedulers at work: {others}'
        return f'no scheduler named "{name}" is at work; schedulers at work: {others}'


def schedulers_of(leases: Iterable[Mapping[str, Any]], at: float, heard: Mapping[str, float] | None = None) -> Schedulers:
    """Return the schedulers in `leases`, which were read at `at`. A Lease that was never held is ignored.

    `heard`: when each Lease (`namespace/name`) was last seen to change. When None, the times that the holders wrote are used.
    """
    live: set[str] = set()
    announced: set[str] = set()
    silent: dict[str, tuple[float, SilentLeader]] = {}
    for lease in leases:
        metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
        renewed = _renewed(spec)
        if renewed is None:
            continue
        own, key = str(metadata.get("name") or ""), f"{metadata.get('namespace')}/{metadata.get('name')}"
        names, is_said = _served(own, str((metadata.get("annotations") or {}).get(SCHEDULER_NAMES) or ""))
        announced.update(names if is_said else ())
        duration = spec.get("leaseDurationSeconds")
        patience = max(SILENT_SECONDS, duration if isinstance(duration, int) else 0)
        if at < (renewed if heard is None else heard.get(key, at)) + patience:
            live.update(names)
            continue
        for name in names:
            silent[name] = max(
                silent.get(name, (0.0, SilentLeader("", ""))), (renewed, SilentLeader(key, str(spec["renewTime"])))
            )
    last = {name: leader for name, (_, leader) in silent.items() if name not in live}
    return Schedulers(frozenset(live), last, frozenset(announced), at)


def _served(lease: str, said: str) -> tuple[tuple[str, ...], bool]:
    """Return the names that the holder of a Lease serves, and whether these are certain."""
    if names := tuple(filter(None, (each.strip() for each in said.split(",")))):
        return names, True
    if lease in _OF_KUBERNETES:
        return (_OF_KUBERNETES[lease],), True
    member = _MEMBER.fullmatch(lease)
    return (lease, member[1]) if member else (lease,), False


def _renewed(spec: Mapping[str, Any]) -> float | None:
    """Return when the holder last renewed the Lease, by its own clock; None for a Lease that was never held or has an invalid
    time.
    """
    try:
        return datetime.fromisoformat(str(spec.get("renewTime") or "")).timestamp()
    except ValueError:
        return None
