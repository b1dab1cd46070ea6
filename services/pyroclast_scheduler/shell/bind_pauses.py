"""The pauses of PodGroups whose binds are refused. A pause belongs to the PodGroup, since its pods may be created again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pyroclast.resources.backoff import Backoff

_OF_PODS: Final = Backoff(0.1, 5.0)  # until refused pods may be placed again; a gang must be complete within 10 s
_OF_GANGS: Final = Backoff(10.0, 300.0)  # after the pods of a gang were deleted; a repaired cause is noticed within minutes


@dataclass(slots=True)
class _Record:
    """The refusals of one PodGroup.

    `refused`: the names of refused pods that were not bound since. `times`, `releases`: the numbers of refusals and releases in a
    row. `until`: the time of the next attempt. `last`: the time of the last refusal.
    """

    uid: str
    refused: set[str] = field(default_factory=set)
    times: int = 0
    releases: int = 0
    until: float = 0.0
    last: float = 0.0


class BindPauses:
    """The pauses after refused binds, by key and UID of the PodGroup. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()  # ordered by the last refusal, oldest first

    def __len__(self) -> int:
        return len(self._records)

    def refuse(self, job: str, uid: str, pod: str, now: float) -> float:
        """Record a refused bind. Return the seconds until the gang's pods may be placed again."""
        record = self._record(job, uid)
        record.refused.add(pod)
        record.last = now
        self._records.move_to_end(job)
        if now >= record.until:
            record.until = now + _OF_PODS.after(record.times)
            record.times += 1
        self._forget_old(now)
        return record.until - now

    def release(self, job: str, uid: str, now: float) -> float:
        """Record that pods of an incomplete gang are deleted. Return the seconds it waits, 0 if no bind was refused."""
        record = self._records.get(job)
        if record is None or record.uid != uid:
            return 0.0
        record.until = now + _OF_GANGS.after(record.releases)
        record.releases += 1
        return record.until - now

    def left(self, job: str, now: float) -> float:
        """Return the seconds until pods of the PodGroup may be placed again."""
        record = self._records.get(job)
        return 0.0 if record is None else max(0.0, record.until - now)

    def bound(self, job: str, pod: str) -> None:
        """Record that a pod was bound. After the last refused pod is bound, pauses start again with the shortest."""
        record = self._records.get(job)
        if record is not None:
            record.refused.discard(pod)
            if not record.refused:
                del self._records[job]

    def _record(self, job: str, uid: str) -> _Record:
        record = self._records.get(job)
        if record is None or record.uid != uid:
            record = self._records[job] = _Record(uid)
        return record

    def _forget_old(self, now: float) -> None:
        """Remove records without a recent refusal, since pods with other names may have been bound instead."""
        while (first := next(iter(self._records.items())))[1].last < now - 2 * _OF_GANGS.most:
            del self._records[first[0]]
