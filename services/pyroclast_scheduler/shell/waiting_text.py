"""The explanation in the annotation of a PodGroup: its cause of waiting and its estimated start."""

from __future__ import annotations

from pyroclast.api.waiting import Waiting, read_waiting, written_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.explaining.annotations import Start, is_worth_a_write, said_of, waiting_of
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.model.amount_text import number
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.shell.estimates import Estimates


class WaitingText:
    """Makes the explanations of waiting jobs from the waiting book, which contains their causes.

    `estimates`: the estimated starts, None if they are disabled.
    """

    def __init__(self, book: WaitingBook, estimates: Estimates | None) -> None:
        self._book = book
        self._estimates = estimates

    def of(self, group: Group) -> str:
        """Return the explanation that a group should have, empty for none; the present one if a change is not worth a write."""
        said, new = said_of(group), self._waiting(group)
        if new is None:
            return ""
        old = read_waiting(said) if said else None
        return said if said and not is_worth_a_write(old, new) else written_waiting(new)

    def start(self, key: str) -> Start | str:
        """Return the estimated start of a job, or a text that says why there is none."""
        entry = self._book.get(key)
        if entry is not None and entry.is_never:
            return "waiting alone does not help"
        if entry is not None and entry.code is PendingReason.BUDGET_SPENT:
            return "a budget keeps it out, until the date that is named or until it is raised"
        return "no estimate is made" if self._estimates is None else self._estimates.start(key)

    def _waiting(self, group: Group) -> Waiting | None:
        entry, start = self._book.get(group.key), self.start(group.key)
        if entry is None:
            return None
        known = None if isinstance(start, str) else start
        if group.keeps_phase:  # its object has fields for queue and minimum resources
            return waiting_of(self._book, entry, known)
        asked = {name: number(name, amount) for name, amount in (group.spec.member_resources or {}).items() if amount}
        return waiting_of(self._book, entry, known, queue=entry.record.queue or group.spec.queue, requests=asked)
