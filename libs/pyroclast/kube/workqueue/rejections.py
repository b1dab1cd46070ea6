"""What the API server refuses for good: users are told once, and it is tried again ever more rarely."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog

from pyroclast.api.records import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.deadline import loop_time
from pyroclast.kube.basics.errors import KubeError, is_terminating_namespace, is_transient
from pyroclast.kube.events.recorder import EventRecorder, Reference

__all__ = ["Refusals", "subjects_of"]

log = structlog.get_logger()

K = TypeVar("K", bound=Hashable)

_FIRST_PAUSE: Final = 1.0
"""Seconds until what was refused is tried again; each further refusal doubles it …"""

_LONGEST_PAUSE: Final = 300.0
"""… up to this: a right that is given is noticed within minutes."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`uid`: of the object; `until` and `since`: when it is tried again and when it was refused, by the clock of the loop."""

    uid: str
    message: str
    times: int
    since: float
    until: float


class Refusals(Generic[K]):
    """Remembers by key what was refused, for a reason that does not pass by itself: a missing right, an object that is invalid.

    Args:
        recorder: records the Event.
        about: the object that a key stands for, on which users look for the Event; None: there is none, or no more.
        reason: of the Event.
    """

    def __init__(self, recorder: EventRecorder, about: Callable[[K], Reference | None], *, reason: str = "FailedSync") -> None:
        self._recorder, self._about, self._reason = recorder, about, reason
        self._refused: OrderedDict[K, _Refusal] = OrderedDict()  # what was refused longest ago first

    def left(self, key: K) -> float:
        """Seconds until `key` may be tried again; 0 for an object that was deleted, or created again, since the refusal."""
        known = self._refused.get(key)
        return 0.0 if known is None or known.uid != _uid(self._about(key)) else max(0.0, known.until - loop_time())

    def take(self, key: K, error: KubeError) -> float:
        """`error` kept `key` from what is to be done, and does not pass by itself; seconds until it may be tried again.

        An Event says so, unless the last one of the object said the same.
        """
        now, subject, known = loop_time(), self._about(key), self._refused.pop(key, None)
        if known is not None and known.uid != _uid(subject):
            known = None
        times = 0 if known is None else known.times + 1
        pause = min(_FIRST_PAUSE * 2.0 ** min(times, 60), _LONGEST_PAUSE)
        self._refused[key] = _Refusal(_uid(subject), error.message, times, now, now + pause)
        self._forget_old(now)
        name = f"{subject.kind} {subject.namespace}/{subject.name}" if subject is not None else str(key)
        log.warning("write.refused", object=name, error=str(error), times=times + 1, pause=pause)
        is_said = known is not None and known.message == error.message
        if subject is not None and not is_said and not is_terminating_namespace(error):  # there no Event can be made either
            text = f"Failed to update {subject.kind.lower()}, err: {error.message}"
            self._recorder.event(subject, "Warning", self._reason, text)
        return pause

    async def attempt(self, key: K, write: Callable[[], Awaitable[object]]) -> float:
        """Do `write` unless it is too early; seconds until it may be tried again, 0 if it was done.

        Raises:
            KubeError: what may pass by itself.
        """
        left = self.left(key)
        if left:
            return left
        try:
            await write()
        except KubeError as error:
            if is_transient(error):
                raise
            return self.take(key, error)
        self.forget(key)
        return 0.0

    def forget(self, key: K) -> None:
        """The work on `key` went well."""
        self._refused.pop(key, None)

    def clear(self, selected: Callable[[K], bool]) -> None:
        """Forget all for which `selected` holds."""
        for key in [key for key in self._refused if selected(key)]:
            del self._refused[key]

    def _forget_old(self, now: float) -> None:
        """What was not tried again in its time has no need of it any more."""
        while (first := next(iter(self._refused.items())))[1].since < now - 2 * _LONGEST_PAUSE:
            del self._refused[first[0]]


class _Known(Protocol):
    def get(self, key: Key, /) -> Record | None: ...


def subjects_of(known: _Known, kind: ResourceType) -> Callable[[Key], Reference | None]:
    """By their keys the objects of a cache, as Events are about them."""

    def subject(key: Key) -> Reference | None:
        record = known.get(key)
        return Reference.of(record, kind) if record is not None else None

    return subject


def _uid(subject: Reference | None) -> str:
    return "" if subject is None else subject.uid
