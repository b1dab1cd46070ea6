"""Jobs at rest that are alike: the session looks at the first of each kind, and at the next one when that got something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.snapshot import Snapshot

__all__ = ["EquivalentJobs"]


class EquivalentJobs:
    """Hands out the jobs of each kind in turn; those that are handed out are in `jobs` from then on.

    `drawn`: their keys. `unexplained`: of those among them that only gave way to others, and of which nobody says why they wait.

    Args:
        snapshot: has the jobs of each kind at rest, the oldest first; what is not among all jobs is outdated.
        jobs: the jobs that the session looks at.
        others: jobs that it made to look something up.
        make: makes the job of a session.
        is_distinct: whether the name of a job alone may decide what it gets; the whole line of such a job is handed out at once.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        jobs: dict[str, Job],
        others: dict[str, Job],
        *,
        make: Callable[[JobFacts], Job],
        is_distinct: Callable[[Job], bool],
    ) -> None:
        self.drawn: list[str] = []
        self.unexplained: set[str] = set()
        self._jobs = jobs
        self._others = others
        self._make = make
        self._lines: dict[str, Iterator[JobFacts]] = {}
        known = snapshot.all_jobs
        for each in snapshot.lines:
            job = self._draw(facts for facts in each if known.get(facts.key) is facts and facts.key not in jobs)
            while job is not None and is_distinct(job):
                job = self.next_after(job)

    def next_after(self, job: Job) -> Job | None:
        """The next one of the kind of `job`, which got something just now: it may too. None if there is none. Told once."""
        line = self._lines.pop(job.facts.key, None)
        return None if line is None else self._draw(line)

    def has_next(self, job: Job) -> bool:
        """Whether one of the kind of `job` waits for what this one leaves."""
        return job.facts.key in self._lines

    def _draw(self, line: Iterator[JobFacts]) -> Job | None:
        facts = next(line, None)
        if facts is None:
            return None
        job = self._others.pop(facts.key, None) or self._make(facts)
        self._jobs[facts.key] = job
        self.drawn.append(facts.key)
        behind = next(line, None)
        if behind is not None:
            self._lines[facts.key] = chain([behind], line)
        return job
