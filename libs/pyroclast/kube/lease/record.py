"""The fields of a Lease, and when a Lease counts as abandoned. The module is pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

WANTED_BY: Final = "pyroclast.dev/wanted-by"
"""An annotation: the replica that asks the holder to hand this Lease over, or to which the Lease was handed over."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read. `holder` is empty when nobody holds it. `duration`: the duration set by the holder, in seconds.

    `wanted_by`: the replica that asks for the Lease; when nobody holds the Lease, the replica for which it was released.
    """

    body: Mapping[str, Any] = field(repr=False)
    holder: str
    duration: float
    transitions: int
    resource_version: str
    wanted_by: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> LeaseView:
        """Read a Lease object. Fields that are missing or have a wrong type are treated as not set."""
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
    """Watches a Lease that another replica holds. Clocks of different machines are never compared.

    The Lease counts as abandoned when it did not change for its own duration, measured by the local clock since this version was
    first seen.
    """

    least: float
    """The shortest duration, in seconds, after which a Lease counts as abandoned."""
    _version: str = ""
    _since: float = 0.0

    def is_free(self, lease: LeaseView, identity: str, now: float) -> bool:
        """Whether `identity` may take `lease`, which was read at `now` (seconds of a monotonic clock)."""
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
    """Return the Lease in the form in which `identity` acquires or renews it.

    `wanted_by`: the replica to which the Lease is handed over when the work has ended; empty for none. `said`: annotations of the
    holder.
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
    """Return the Lease in the form in which its holder releases it: free at once for `wanted_by`, or for any replica if that is
    empty.
    """
    spec = {**(lease.body.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}
    return {**_wanted(lease.body, wanted_by), "spec": spec}


def asked_for(lease: LeaseView, identity: str) -> dict[str, Any]:
    """Return the Lease of another replica, with the request to hand it over to `identity`."""
    return _wanted(lease.body, identity)


def _wanted(body: Mapping[str, Any], identity: str, said: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    metadata = dict(body.get("metadata") or {})
    annotations = {name: value for name, value in (metadata.pop("annotations", None) or {}).items() if name != WANTED_BY}
    annotations |= said
    if identity:
        annotations[WANTED_BY] = identity
    return {**body, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def micro_time(when: datetime) -> str:
    """Return `when`, which is in UTC, in the format of API times with microseconds."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
