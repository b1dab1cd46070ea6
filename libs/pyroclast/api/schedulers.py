"""Which schedulers are at work, as their Leases tell; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

__all__ = ["NOT_OF_NODES", "SCHEDULER_NAMES", "SILENT_SECONDS", "Schedulers", "SilentLeader", "schedulers_of"]

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


@dataclass(frozen=True, slots=True, order=True)
class SilentLeader:
    """Whom nobody hears any more: its Lease, `namespace/name`, and when that says it was renewed last."""

    lease: str
    renewed: str


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The schedulers that the Leases of a cluster tell of, by the names that pods ask for.

    A Lease that does not say whom it serves may be anybody's: it serves its own name.

    Attributes:
        live: names of which a scheduler was heard lately.
        silent: the other names for which there is a Lease.
        announced: the names of which it is known that a scheduler serves them.
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
        """The names that are surely those of schedulers, and live."""
        return sorted(self.announced & self.live)

    def absence(self, name: str) -> str:
        """Why nobody serves `name`, and who would be there; empty when somebody does."""
        if name in self.live:
            return ""
        others = ", ".join(self.at_work) or "none"
        if (leader := self.silent.get(name)) is not None:
            since = f"its Lease {leader.lease} was last renewed at {leader.renewed}"
            return f'scheduler "{name}" is silent: {since}; schedulers at work: {others}'
        return f'no scheduler named "{name}" is at work; schedulers at work: {others}'


def schedulers_of(leases: Iterable[Mapping[str, Any]], at: float, heard: Mapping[str, float] | None = None) -> Schedulers:
    """The schedulers that `leases`, read at `at`, tell of; those that nobody ever held tell of none.

    `heard`: when each Lease (`namespace/name`) was seen to change last. Without it the clocks of the holders must do.
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
        if at < (renewed if heard is None else heard.get(key, at)) + _patience(spec):
            live.update(names)
            continue
        for name in names:
            silent[name] = max(
                silent.get(name, (0.0, SilentLeader("", ""))), (renewed, SilentLeader(key, str(spec["renewTime"])))
            )
    last = {name: leader for name, (_, leader) in silent.items() if name not in live}
    return Schedulers(frozenset(live), last, frozenset(announced), at)


def _served(lease: str, said: str) -> tuple[tuple[str, ...], bool]:
    """The names that the holder of a Lease serves, and whether that is known."""
    if names := tuple(filter(None, (each.strip() for each in said.split(",")))):
        return names, True
    if lease in _OF_KUBERNETES:
        return (_OF_KUBERNETES[lease],), True
    member = _MEMBER.fullmatch(lease)
    return (lease, member[1]) if member else (lease,), False


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
