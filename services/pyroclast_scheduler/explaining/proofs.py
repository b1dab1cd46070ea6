"""Changes of a Job that help, each proved by a trial with the active actions and plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_codes import says_never
from pyroclast_scheduler.explaining.changes import Change, Situation, candidates
from pyroclast_scheduler.explaining.trials import Engine, Verdict, gang_of, tried
from pyroclast_scheduler.model.causes import WaitingRecord

MOST_TRIALS: Final = 7
MOST_CHANGES: Final = 5
TRIAL_SECONDS: Final = 0.05
_PRIORITY: Final = "priorityClassName"
_REPEATED: Final = frozenset({"queue", "nodeSelector", "toleration"})


class _Spent(Exception):
    """The limit of trials or time is reached."""


@dataclass(slots=True)
class Prover:
    """Tries changes of one Job, limited in number and time.

    `key` is that of the PodGroup that the trial replaces. `position` returns the position in its queue of a job with a given
    record, and `pause` waits until no session runs.
    """

    case: Situation
    key: str
    engine: Engine
    position: Callable[[WaitingRecord], int]
    clock: Callable[[], float]
    pause: Callable[[], None] = lambda: None
    left: int = MOST_TRIALS
    seconds: float = MOST_TRIALS * TRIAL_SECONDS

    def verdict(self, change: Change) -> Verdict:
        """Return the result of a trial with a change.

        Raises:
            _Spent: the limit of trials or time is reached.
        """
        if self.left <= 0 or self.seconds <= 0:
            raise _Spent
        self.left -= 1
        self.pause()
        case, begin = self.case, self.clock()
        waiting = case.snapshot.all_jobs.get(self.key)
        phase = PodGroupPhase.PENDING if waiting is None or change.kind == "queue" else waiting.phase
        gang = gang_of(change.body, case.priorities.values, case.priorities.default, additions=case.additions, phase=phase)
        verdict = tried(case.snapshot, gang, self.engine, instead=self.key)
        self.seconds -= self.clock() - begin
        return verdict

    def helping(self) -> Iterator[dict[str, Any]]:
        """Yield the changes that help, as fields of an answer.

        Raises:
            _Spent: the limit of trials or time is reached.
        """
        higher: list[Change] = []
        done: set[str] = set()
        for change in candidates(self.case):
            if change.kind == _PRIORITY:
                higher.append(change)
            elif change.kind not in done:
                answer = self._told(change, self.verdict(change))
                if answer is not None:
                    yield answer
                    done |= {change.kind} - _REPEATED
        if higher:
            yield from self._lowest(higher)

    def _lowest(self, higher: list[Change]) -> Iterator[dict[str, Any]]:
        """Yield the lowest PriorityClass with the same result as the highest.

        Only the two lowest ones are tried. If both give another result, the highest is yielded.
        """
        best = self._told(higher[-1], self.verdict(higher[-1]))
        if best is None:
            return
        for change in higher[:-1][:2]:
            answer = self._told(change, self.verdict(change))
            if answer is not None and answer["when"] == best["when"]:
                yield answer
                return
        yield best

    def _told(self, change: Change, verdict: Verdict) -> dict[str, Any] | None:
        fields = {"change": change.text, "kind": change.kind, "value": change.value, "evictions": verdict.evictions}
        if verdict.starts:
            price = f", and {verdict.evictions} pods are evicted for it" if verdict.evictions else ""
            return {**fields, "text": f"{change.text}: now{price}", "when": "now", "position": None, "code": None}
        record = verdict.record
        if record is None:
            return None
        now_never = says_never(record.sentence)
        place = self.position(record) + 1
        answer = {**fields, "position": place, "code": str(record.code)}
        if self.case.is_never and not now_never:
            return {**answer, "text": f"{change.text}: it waits then ({record.code})", "when": f"waits: {record.code}"}
        if change.kind == _PRIORITY and not now_never and place < self.case.place:
            return {**answer, "text": f"{change.text}: position {place}", "when": f"position {place}"}
        return None


def proved(prover: Prover) -> dict[str, Any]:
    """Return the fields `change` and `changeReason` of the document `Explanation`."""
    changes: list[dict[str, Any]] = []
    reason = ""
    try:
        for each in prover.helping():
            changes.append(each)
            if len(changes) == MOST_CHANGES:
                break
    except _Spent:
        reason = "as many changes were tried as there is time for"
    if not changes:
        reason = "no single change that was tried helps" if reason else "no single change helps"
    return {"change": changes, "changeReason": reason}
