"""Which schedulers are at work, as their Leases tell; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

__all__ = ["NOT_OF_NODES", "SCHEDULER_NAMES", "SILENT_SECONDS", "Leader", "Schedulers", "schedulers_of"]

SCHEDULER_NAMES: Final = "pyroclast.dev/scheduler-names"
"""An annotation of a Lease: the names, between commas, by which pods ask for the scheduler that holds it."""

NOT_OF_NODES: Final = "metadata.namespace!=kube-node-lease"
"""A field selector: kubelets renew a Lease per node, of which none is a scheduler's."""

SILENT_SECONDS: Final = 30.0
"""How old the last renewal of a Lease may be: a leader that was replaced is followed by another long before that."""

_OF_KUBERNETES: Final = {"kube-scheduler": "default-scheduler"}
"""Leases of schedulers that pods know by another name, and that do not say so."""

_MEMBER: Final = re.compile(r"(.+)-[0-9]+")
"""The Lease of one of several members or shards."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The newest Lease that serves a name. `until`: seconds since the epoch from which its holder counts as silent."""

    lease: str
    renewed: str
    until: float


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The schedulers that the Leases of a cluster tell of, by the names that pods ask for.

    Attributes:
        leaders: by name. A Lease that does not say whom it serves may be anybody's: it serves its own name.
        announced: the names of which it is known that a scheduler serves them.
        at: when the Leases were read, in seconds since the epoch.
    """

    leaders: Mapping[str, Leader]
    announced: frozenset[str] = frozenset()
    at: float = 0.0

    def is_known(self, name: str) -> bool:
        """Whether there is a Lease of that name, however old."""
        return name in self.leaders

    def is_live(self, name: str) -> bool:
        """Whether a scheduler of that name had been heard of lately when the Leases were read."""
        return name in self.leaders and self.at < self.leaders[name].until

    @property
    def live(self) -> frozenset[str]:
        """The names that are live, those of Leases of other programs included."""
        return frozenset(name for name in self.leaders if self.is_live(name))

    @property
    def at_work(self) -> list[str]:
        """The names that are surely those of schedulers, and live."""
        return sorted(self.announced & self.live)

    def absence(self, name: str) -> str:
        """Why nobody serves `name`, and who would be there; empty when somebody does."""
        if self.is_live(name):
            return ""
        others = ", ".join(self.at_work) or "none"
        if (leader := self.leaders.get(name)) is not None:
            since = f"its Lease {leader.lease} was last renewed at {leader.renewed}"
            return f'scheduler "{name}" is silent: {since}; schedulers at work: {others}'
        return f'no scheduler named "{name}" is at work; schedulers at work: {others}'


def schedulers_of(leases: Iterable[Mapping[str, Any]], at: float, heard: Mapping[str, float] | None = None) -> Schedulers:
    """The schedulers that `leases`, read at `at`, tell of; those that nobody ever held tell of none.

    `heard`: when each Lease (`namespace/name`) was seen to change last. Without it the clocks of the holders must do.
    """
    leaders: dict[str, Leader] = {}
    announced: set[str] = set()
    for lease in leases:
        metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
        renewed = _renewed(spec)
        if renewed is None:
            continue
        own, key = str(metadata.get("name") or ""), f"{metadata.get('namespace')}/{metadata.get('name')}"
        until = (renewed if heard is None else heard.get(key, at)) + _patience(spec)
        said = [each.strip() for each in str((metadata.get("annotations") or {}).get(SCHEDULER_NAMES) or "").split(",")]
        names = [each for each in said if each] or ([_OF_KUBERNETES[own]] if own in _OF_KUBERNETES else [])
        announced.update(names)
        leader = Leader(key, str(spec["renewTime"]), until)
        member = _MEMBER.fullmatch(own)
        for name in names or (own, *((member[1],) if member else ())):
            if name not in leaders or leaders[name].until < until:
                leaders[name] = leader
    return Schedulers(leaders, frozenset(announced), at)


def _renewed(spec: Mapping[str, Any]) -> float | None:
    """When the holder renewed it last, by its own clock; None for a Lease that was never held, or whose time is none."""
    try:
        return datetime.fromisoformat(str(spec.get("renewTime") or "")).timestamp()
    except ValueError:
        return None


def _patience(spec: Mapping[str, Any]) -> float:
    """Seconds after which the holder counts as silent."""
    duration = spec.get("leaseDurationSeconds")
    return max(SILENT_SECONDS, float(duration) if isinstance(duration, int) else 0.0)
