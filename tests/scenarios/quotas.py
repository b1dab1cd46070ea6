"""Tables of quotas on devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import TaskFacts, task_of
from pyroclast_scheduler.plugins.capacity.dra import Accounts, limits_of
from tests.scenarios import claims, objects

from .profiles import configuration, profile_of
from .runner import Result, Seen, cycle, feed

MOST = 2**63 - 1


def is_quota(case: Mapping[str, Any]) -> bool:
    """Whether the case gives, row by row, the limits of a queue and claims of pods."""
    return "rows" in case and all(isinstance(row, Mapping) and {"capability", "claims"} <= row.keys() for row in case["rows"])


def quota(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which pods are bound, each with a PodGroup and a claim of its own."""
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        feed(cache, {"nodes": case["nodes"], "queues": [["q", {"capability": row["capability"]}]]})
        given = {f"{pod}-c": {"class": wanted, "count": count} for pod, (wanted, count) in row["claims"].items()}
        groups = [[f"j-{pod}", "q", 1, {"roles": {"w": 1}}] for pod in row["claims"]]
        pods = [[pod, f"j-{pod}", "-", 1, "1Gi", {"role": "w", "claim": f"{pod}-c"}] for pod in row["claims"]]
        feed(cache, {"deviceClaims": given, "podgroups": groups, "pods": pods})
        seen = Seen()
        cycle(cache, configuration(profile_of(case), case), seen)
        got = sorted(seen.binds)
        yield Result(f"{name}.{number}", [] if got == sorted(row["bind"]) else [f"bound: got {got}, want {row['bind']}"])


def _task(pod: str, claim: str) -> TaskFacts:
    return task_of(objects.pod([pod, "j", "-", 1, "1Gi", {"claim": claim}]), ShapeBook())


def _job(task: TaskFacts) -> Job:
    return Job(JobFacts.of(volcano_group(objects.pod_group(["j", "q", 1])), [task], queue="q"), Dimensions(), {})


def _accounts(limit: int, **counts: int) -> Accounts:
    known = {f"{objects.NAMESPACE}/{name}": claims.claim(name, {"class": "g", "count": count}) for name, count in counts.items()}
    return Accounts({0: {"deviceclass/g": limit}}, known, [[0]])


def _shared() -> list[bool]:
    accounts = _accounts(1, shared=1, other=1)
    one, two, other = _task("one", "shared"), _task("two", "shared"), _task("other", "other")
    accounts.move(0, one, 1)
    found = [accounts.is_room(0, two), not accounts.is_room(0, other)]
    accounts.move(0, two, 1)
    accounts.move(0, one, -1)
    found.append(not accounts.is_room(0, other))
    accounts.move(0, two, -1)
    return [*found, accounts.is_room(0, other)]


def _inqueue() -> list[bool]:
    accounts = _accounts(2, first=1, second=2)
    accounts.entered(0, _job(_task("first", "first")))
    second = _task("second", "second")
    return [not accounts.may_enter(0, _job(second)), accounts.is_room(0, second)]


def _overflow() -> list[bool]:
    accounts = _accounts(8, huge=MOST, more=MOST, four=4)
    is_open = accounts.may_enter(0, _job(_task("four", "four")))
    accounts.entered(0, _job(_task("huge", "huge")))
    return [is_open, not accounts.may_enter(0, _job(_task("more", "more")))]


def _parsed() -> list[bool]:
    found = limits_of({"deviceclass/g": "2", "memory.deviceclass/g": "120Gi", "cpu": "4"})
    return [found == {"deviceclass/g": 2, "memory.deviceclass/g": 120 * 2**30}]


CHECKS = {
    "shared claim used by two": _shared,
    "distinct claim is rejected": _shared,
    "enqueue check adds inqueue": _inqueue,
    "inqueue = request = int64 max": _overflow,
    "{deviceclass/g: 2, memory": _parsed,
}
"""What a row of the table says, by how it begins."""


def accounting(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Each row is a sentence; what it says is checked."""
    for number, row in enumerate(case["rows"], 1):
        check = next((check for words, check in CHECKS.items() if str(row).startswith(words)), None)
        if check is None:
            yield Result(f"{name}.{number}", missing=[f"a check of {row!r}"])
        else:
            yield Result(f"{name}.{number}", [] if all(check()) else [str(row)])
