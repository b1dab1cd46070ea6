"""What a Lease says, and when it counts as abandoned: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["LeaseView", "Watcher", "held_by", "micro_time", "released"]


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read. `holder` is empty when nobody holds it; `duration` is what its holder promised, in seconds."""

    body: Mapping[str, Any] = field(repr=False)
    holder: str
    duration: float
    transitions: int
    resource_version: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> LeaseView:
        """Read the object; fields that are missing or of a wrong type count as unset."""
        spec = body.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            body,
            str(spec.get("holderIdentity") or ""),
            float(duration) if isinstance(duration, int) else 0.0,
            transitions if isinstance(transitions, int) else 0,
            str((body.get("metadata") or {}).get("resourceVersion") or ""),
        )


@dataclass(slots=True)
class Watcher:
    """Watches a Lease that another holds. Clocks of different machines are never compared.

    The Lease is abandoned when it did not change for as long as its holder promised to renew it, measured by our own clock from
    the moment we first saw it as it is.
    """

    least: float
    """Seconds that count when the holder promised fewer."""
    _version: str = ""
    _since: float = 0.0

    def is_free(self, lease: LeaseView, now: float) -> bool:
        """Whether `lease`, read at `now` (seconds of a clock that does not go back), may be taken."""
        if not lease.holder:
            return True
        if lease.resource_version != self._version:
            self._version, self._since = lease.resource_version, now
            return False
        return now - self._since >= max(lease.duration, self.least)


def held_by(lease: LeaseView, identity: str, duration: float, now: datetime) -> dict[str, Any]:
    """The Lease as `identity` writes it to take or to renew it."""
    stamp = micro_time(now)
    spec = {
        **(lease.body.get("spec") or {}),
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(duration),
        "renewTime": stamp,
    }
    if lease.holder != identity:
        spec |= {"acquireTime": stamp, "leaseTransitions": lease.transitions + 1 if lease.resource_version else 0}
    return {**lease.body, "spec": spec}


def released(lease: LeaseView, now: datetime) -> dict[str, Any]:
    """The Lease as its holder leaves it, free for anyone at once."""
    spec = {**(lease.body.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}
    return {**lease.body, "spec": spec}


def micro_time(when: datetime) -> str:
    """`when`, which is in UTC, as the API writes times with microseconds."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
