"""Turns: the jobs of a queue for which an action may make room, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.session.heaps import Heap
from pyroclast_scheduler.session.session import Session

__all__ = ["take_turns"]


def take_turns(session: Session, jobs: Iterable[Job], makes_room: Callable[[Job], bool]) -> list[Job]:
    """Let `makes_room` try for each of `jobs` in their order, and for the followers of those that got something; all of them.

    Where a job got nothing, none of its kind does until another job got something.
    """
    line: Heap[Job] = Heap(session.job_key)
    found: list[Job] = []
    hopeless: set[bytes | None] = set()

    def add(job: Job) -> None:
        found.append(job)
        line.push(job)

    for job in jobs:
        add(job)
    while line:
        job = line.pop()
        kind = session.kind(job)
        if kind is not None and kind in hopeless:
            continue
        if not makes_room(job):
            hopeless.add(kind)
            continue
        hopeless.clear()
        follower = session.follower(job)
        if follower is not None:
            add(follower)
    return found
