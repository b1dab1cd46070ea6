"""What a Lease says, and when it counts as abandoned: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

__all__ = ["LeaseView", "Watcher", "asked_for", "held_by", "micro_time", "released"]

WANTED_BY: Final = "pyroclast.dev/wanted-by"
"""An annotation: who asks the holder to hand this Lease over, or whom it has been handed to."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read. `holder` is empty when nobody holds it; `duration` is what its holder promised, in seconds.

    `wanted_by` is who would like to have it, or, when nobody holds it, for whom it was given up.
    """

    body: Mapping[str, Any] = field(repr=False)
    holder: str
    duration: float
    transitions: int
    resource_version: str
    wanted_by: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> LeaseView:
        """Read the object; fields that are missing or of a wrong type count as unset."""
        spec = body.get("spec") or {}
        metadata = body.get("metadata") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            body,
            str(spec.get("holderIdentity") or ""),
            float(duration) if isinstance(duration, int) else 0.0,
            transitions if isinstance(transitions, int) else 0,
            str(metadata.get("resourceVersion") or ""),
            str((metadata.get("annotations") or {}).get(WANTED_BY) or ""),
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

    def is_free(self, lease: LeaseView, identity: str, now: float) -> bool:
        """Whether `identity` may take `lease`, read at `now` (seconds of a clock that does not go back)."""
        if lease.holder == identity or (not lease.holder and lease.wanted_by in {"", identity}):
            return True
        if lease.resource_version != self._version:
            self._version, self._since = lease.resource_version, now
            return False
        return now - self._since >= max(lease.duration, self.least)


def held_by(
    lease: LeaseView,
    identity: str,
    duration: float,
    now: datetime,
    wanted_by: str = "",
    *,
    said: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The Lease as `identity` writes it to take or to renew it, perhaps only until its work for `wanted_by` has ended.

    `said`: annotations that the holder puts on it.
    """
    stamp = micro_time(now)
    spec = {
        **(lease.body.get("spec") or {}),
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(duration),
        "renewTime": stamp,
    }
    if lease.holder != identity:
        spec |= {"acquireTime": stamp, "leaseTransitions": lease.transitions + 1 if lease.resource_version else 0}
    return {**_wanted(lease.body, wanted_by, said or {}), "spec": spec}


def released(lease: LeaseView, now: datetime, wanted_by: str = "") -> dict[str, Any]:
    """The Lease as its holder leaves it, free at once for `wanted_by`, or for anyone."""
    spec = {**(lease.body.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}
    return {**_wanted(lease.body, wanted_by), "spec": spec}


def asked_for(lease: LeaseView, identity: str) -> dict[str, Any]:
    """The Lease of another, with the wish that it be handed to `identity`."""
    return _wanted(lease.body, identity)


def _wanted(body: Mapping[str, Any], identity: str, said: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    metadata = dict(body.get("metadata") or {})
    annotations = {name: value for name, value in (metadata.pop("annotations", None) or {}).items() if name != WANTED_BY}
    annotations |= said
    if identity:
        annotations[WANTED_BY] = identity
    return {**body, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def micro_time(when: datetime) -> str:
    """`when`, which is in UTC, as the API writes times with microseconds."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
