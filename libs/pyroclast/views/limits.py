"""The limits of each person in queues, and how much of them each person uses, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase
from pyroclast.api.person_limits import Limits, PersonLimitsError, class_of, person_of, read_person_limits
from pyroclast.resources import durations
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.contract import Row
from pyroclast.views.queues import ROOT
from pyroclast.views.readable import amount, readable

_LET_IN: Final = frozenset({"Inqueue", "Running", "Unknown"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Object = Mapping[str, Any]


@dataclass(slots=True)
class _Use:
    """What one person uses in a queue. `running`: gangs that run or are let in. `waiting`: Jobs that have not started."""

    running: int = 0
    waiting: int = 0
    resources: dict[str, Quantity] = field(default_factory=dict)


def limit_rows(
    queues: Sequence[Object], groups: Sequence[Object], jobs: Sequence[Object], pods: Sequence[Object], *, only: str = ""
) -> list[Row]:
    """Return a row for each limit of each person who has Jobs in a queue, or below it, or whom the queue names.

    `groups`: the PodGroups. `only`: the queue to show; empty for all. An invalid annotation gives one row with its `problem`.
    """
    parents = {str(each["metadata"]["name"]): str((each.get("spec") or {}).get("parent") or ROOT) for each in queues}
    use = _use_of(groups, jobs, pods, parents)
    rows: list[Row] = []
    for queue in sorted(queues, key=lambda each: str(each["metadata"]["name"])):
        name = str(queue["metadata"]["name"])
        text = (queue["metadata"].get("annotations") or {}).get(keys.QUEUE_PERSON_LIMITS)
        if text is None or only not in {"", name}:
            continue
        try:
            limits = read_person_limits(text)
        except PersonLimitsError as error:
            rows.append({"name": name, "problem": str(error)})
            continue
        persons = sorted({person for queue_name, person, _ in use if queue_name == name} | limits.persons.keys())
        for person in persons or ["any person"]:
            for counted, each in (*limits.of(person, ""), *sorted(limits.classes.items())):
                rows += _rows(name, person, counted, each, use.get((name, person, counted), _Use()))
    return rows


def _rows(name: str, person: str, counted: str, limits: Limits, use: _Use) -> Iterator[Row]:
    said: list[tuple[str, str | None, str]] = []
    if limits.running_jobs is not None:
        said.append(("running Jobs", str(use.running), str(limits.running_jobs)))
    if limits.waiting_jobs is not None:
        said.append(("waiting Jobs", str(use.waiting), str(limits.waiting_jobs)))
    for resource, most in sorted(limits.resources.items()):
        used = use.resources.get(resource)
        said.append((resource, "0" if used is None else readable(resource, used), most))
    if limits.run_seconds is not None:
        said.append(("run time", None, durations.shown(int(limits.run_seconds * 1e9))))
    for limited, used_text, limit in said:
        row = {"name": name, "person": person, "class": counted, "limited": limited, "used": used_text, "limit": limit}
        yield {**row, "problem": None}


def _use_of(
    groups: Sequence[Object], jobs: Sequence[Object], pods: Sequence[Object], parents: Mapping[str, str]
) -> dict[tuple[str, str, str], _Use]:
    """Return the use by queue, person and class of service; the empty class stands for all Jobs."""
    found: dict[tuple[str, str, str], _Use] = {}
    of_group: dict[tuple[str, str], list[_Use]] = {}
    for group in groups:
        metadata = group["metadata"]
        uses = of_group[metadata.get("namespace", ""), metadata["name"]] = list(_uses(found, group, parents))
        for use in uses if (group.get("status") or {}).get("phase") in _LET_IN else ():
            use.running += 1
    for job in jobs:
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or JobPhase.PENDING
        for use in _uses(found, job, parents) if phase == JobPhase.PENDING else ():
            use.waiting += 1
    for pod in pods:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        group_name = (metadata.get("annotations") or {}).get(keys.GROUP_NAME, "")
        if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for use in of_group.get((metadata.get("namespace", ""), group_name), ()):
            for resource, asked in effective(spec, "requests").items():
                use.resources[resource] = use.resources.get(resource, amount("0")) + asked
    return found


def _uses(found: dict[tuple[str, str, str], _Use], body: Object, parents: Mapping[str, str]) -> Iterable[_Use]:
    """Yield the uses in which an object counts: by its queue and those above, for its class and for all classes."""
    metadata, queue = body["metadata"], (body.get("spec") or {}).get("queue") or "default"
    person = person_of(metadata.get("annotations") or {}, metadata.get("namespace", ""))
    seen: set[str] = set()
    while queue not in seen and (queue in parents or not seen):
        seen.add(queue)
        for counted in ("", class_of(metadata.get("labels") or {})):
            yield found.setdefault((queue, person, counted), _Use())
        queue = parents.get(queue, ROOT)
