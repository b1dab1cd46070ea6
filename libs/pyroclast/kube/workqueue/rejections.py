"""Permanent errors of the API server: each is recorded as an Event once, and the write is tried again at growing intervals."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.api.records import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.deadline import loop_time
from pyroclast.kube.basics.errors import KubeError, is_terminating_namespace, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.resources.backoff import Backoff

log = structlog.get_logger()

K = TypeVar("K", bound=Hashable)

_BACKOFF: Final = Backoff(1.0, 300.0)
"""A newly granted right takes effect within minutes."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`uid`: the UID of the object. `until`, `since`: times of the next try and of the refusal, by the clock of the loop."""

    uid: str
    message: str
    times: int
    since: float
    until: float


class Refusals(Generic[K]):
    """Remembers refused writes by key. Only permanent errors are remembered, such as a missing right or an invalid object.

    `about`: returns the object of a key, on which the Event is recorded; None when the object does not exist or is unknown.
    `reason`: the reason of the Events.
    """

    def __init__(self, recorder: EventRecorder, about: Callable[[K], Reference | None], *, reason: str = "FailedSync") -> None:
        self._recorder, self._about, self._reason = recorder, about, reason
        self._refused: OrderedDict[K, _Refusal] = OrderedDict()  # the oldest refusal first

    def left(self, key: K) -> float:
        """Return the seconds until `key` may be tried again; 0 if its object was deleted, or created again, since the refusal."""
        known = self._refused.get(key)
        return 0.0 if known is None or known.uid != _uid(self._about(key)) else max(0.0, known.until - loop_time())

    def take(self, key: K, error: KubeError) -> float:
        """Record the permanent `error` of a write for `key`; return the seconds until `key` may be tried again.

        Records an Event on the object, unless the last Event had the same message.
        """
        now, subject, known = loop_time(), self._about(key), self._refused.pop(key, None)
        if known is not None and known.uid != _uid(subject):
            known = None
        times = 0 if known is None else known.times + 1
        pause = _BACKOFF.after(times)
        self._refused[key] = _Refusal(_uid(subject), error.message, times, now, now + pause)
        self._forget_old(now)
        name = f"{subject.kind} {subject.namespace}/{subject.name}" if subject is not None else str(key)
        log.warning("write.refused", object=name, error=str(error), times=times + 1, pause=pause)
        is_said = known is not None and known.message == error.message
        # no Event can be created in such a namespace either
        if subject is not None and not is_said and not is_terminating_namespace(error):
            text = f"Failed to update {subject.kind.lower()}, err: {error.message}"
            self._recorder.event(subject, "Warning", self._reason, text)
        return pause

    async def attempt_all(self, writes: Iterable[tuple[K, Callable[[], Awaitable[object]]]]) -> float:
        """Run each write, but not during the pause after its refusal. A failed write does not stop the others.

        Return the seconds until the next try, 0 when all writes succeeded. Raises KubeError: the first transient error.
        """
        failures: list[KubeError] = []
        pauses: list[float] = []
        for key, write in writes:
            if left := self.left(key):
                pauses.append(left)
                continue
            try:
                await write()
            except KubeError as error:
                if is_transient(error):
                    log.warning("write.failed", key=str(key), error=str(error))
                    failures.append(error)
                else:
                    pauses.append(self.take(key, error))
            else:
                self.forget(key)
        if failures:
            raise failures[0]
        return min(pauses, default=0.0)

    def forget(self, key: K) -> None:
        """Forget the refusal of `key` after a success."""
        self._refused.pop(key, None)

    def clear(self, selected: Callable[[K], bool]) -> None:
        """Forget the refusals of all keys for which `selected` is true."""
        for key in [key for key in self._refused if selected(key)]:
            del self._refused[key]

    def _forget_old(self, now: float) -> None:
        """Forget the refusals whose write was not tried again in time: it is no longer needed."""
        while (first := next(iter(self._refused.items())))[1].since < now - 2 * _BACKOFF.most:
            del self._refused[first[0]]


def subjects_of(get: Callable[[Key], Record | None], kind: ResourceType) -> Callable[[Key], Reference | None]:
    """Return a function from the key of an object to the reference for its Events. `get`: returns the record of a key."""

    def subject(key: Key) -> Reference | None:
        record = get(key)
        return Reference.of(record, kind) if record is not None else None

    return subject


def _uid(subject: Reference | None) -> str:
    return "" if subject is None else subject.uid
