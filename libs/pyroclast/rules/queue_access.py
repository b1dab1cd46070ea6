"""Who may use a queue: which queues a request begins to use, and which namespaces a queue admits.

Whether the user has the verb `use` is a question to the API server, which admission asks about the queues that are named here.
An object from which others are made (a template) uses its queues anew with each change of the template. Else a user could edit
the CronJob of a colleague, and run Jobs by the colleague's right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pyroclast.api import keys
from pyroclast.api.person_limits import NORMAL, PersonLimits, PersonLimitsError, person_of, read_person_limits
from pyroclast.api.types import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES, JOBS, POD_GROUPS, Key
from pyroclast.resources.durations import DurationError, nanoseconds, shown
from pyroclast.rules.errors import forbidden, invalid
from pyroclast.rules.jobflows.entries import EntrySpecs
from pyroclast.rules.lookups import DEFAULT_QUEUE, ROOT_QUEUE, FlowKnowledge, QueueLookup, QueueView
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.values import Json, mapping, mappings, text
from pyroclast.rules.verdicts import ALLOWED, Verdict, field_verdict

MOST_QUEUES: Final = 32
"""The most queues that one object may begin to use where admission asks the API server about each."""

CLASS_PATH: Final = f"metadata.labels[{keys.SERVICE_CLASS}]"
_SHOWN: Final = 5


class _Kind(NamedTuple):
    """How the objects of a kind name queues. `template` returns the part from which other objects are made; None without one."""

    queues: Callable[[Mapping[str, Any], str, FlowKnowledge], Iterator[str]]
    template: Callable[[Mapping[str, Any]], Json] = lambda _: None


def _of_spec(spec: Json) -> str:
    return text(mapping(spec).get("queue")) or DEFAULT_QUEUE


def _of_flow(flow: Mapping[str, Any], namespace: str, known: FlowKnowledge) -> Iterator[str]:
    """Yield the queues of the Jobs of a flow, as far as their templates exist; else those that the patches name."""
    specs = EntrySpecs(namespace, known, mapping(mapping(flow.get("spec")).get("parameters")))
    for _, entry in mappings(mapping(flow.get("spec")).get("flows")):
        patch = mapping(entry.get("patch"))
        try:
            spec = specs.of(entry)
        except ValueError:
            continue
        if spec is not None:
            yield _of_spec(spec)
        elif queue := text(mapping(patch.get("spec") or patch.get("jobSpec")).get("queue")):
            yield queue


def _of_workload(body: Mapping[str, Any], _namespace: str, _known: FlowKnowledge) -> Iterator[str]:
    """Yield the queues in the metadata of a pod, a native group or a workload of Kubernetes, and of its pod template."""
    spec = mapping(body.get("spec"))
    for holder in (body, spec.get("template"), spec.get("jobTemplate"), _pod_template(body)):
        metadata = mapping(mapping(holder).get("metadata"))
        for part in ("labels", "annotations"):
            if queue := text(mapping(metadata.get(part)).get(keys.SCHEDULING_QUEUE_NAME)):
                yield queue


def _pod_template(body: Mapping[str, Any]) -> Json:
    spec = mapping(body.get("spec"))
    return mapping(mapping(spec.get("jobTemplate")).get("spec")).get("template") or spec.get("template")


def _replicated_jobs(body: Mapping[str, Any]) -> Json:
    return mapping(body.get("spec")).get("replicatedJobs")


_OURS: Final[Mapping[str, _Kind]] = {
    JOBS.qualified: _Kind(lambda body, *_: iter([_of_spec(body.get("spec"))])),
    POD_GROUPS.qualified: _Kind(lambda body, *_: iter([_of_spec(body.get("spec"))])),
    CRON_JOBS.qualified: _Kind(
        lambda body, *_: iter([_of_spec(mapping(mapping(body.get("spec")).get("jobTemplate")).get("spec"))]),
        lambda body: mapping(body.get("spec")).get("jobTemplate"),
    ),
    JOB_TEMPLATES.qualified: _Kind(lambda body, *_: iter([_of_spec(body.get("spec"))]), lambda body: body.get("spec")),
    JOB_FLOWS.qualified: _Kind(_of_flow, lambda body: [mapping(body.get("spec")).get(part) for part in ("flows", "parameters")]),
    HYPER_JOBS.qualified: _Kind(
        lambda body, *_: (_of_spec(entry.get("templateSpec")) for _, entry in mappings(_replicated_jobs(body))),
        _replicated_jobs,
    ),
}
_WORKLOAD: Final = _Kind(_of_workload, _pod_template)


def newly_used(
    kind: str, body: Mapping[str, Any], old: Mapping[str, Any] | None, namespace: str, known: FlowKnowledge
) -> tuple[str, ...]:
    """Return the names of the queues that a request begins to use, in order. `old` is None for a creation.

    `kind`: plural and group of the object, as in `jobs.batch.volcano.sh`; any kind that is not ours counts as a workload.
    """
    row = _OURS.get(kind, _WORKLOAD)
    names = set(row.queues(body, namespace, known))
    if old is not None and same_meaning(row.template(body), row.template(old)):
        names -= set(row.queues(old, namespace, known))
    return tuple(sorted(names))


def check_use(used: Collection[str], body: Mapping[str, Any], namespace: str, queues: QueueLookup) -> Verdict:
    """Return the verdict on an object that uses these queues: on its namespace, and on its class of service.

    A queue without the annotation admits every namespace.
    """
    for name in used:
        queue = queues.get(name)
        if queue is not None and (fault := _class_fault(queue, body)):
            return field_verdict([invalid(CLASS_PATH, _labels(body).get(keys.SERVICE_CLASS), fault)])
        if queue is not None and (fault := _run_time_fault(queue, body)):
            return field_verdict([invalid("spec.runningEstimate", mapping(body.get("spec")).get("runningEstimate"), fault)])
        if queue is None or queue.namespaces is None or namespace in queue.namespaces:
            continue
        listed = sorted(queue.namespaces)
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        sentence = (
            f'queue "{name}" may not be used in the namespace "{namespace}": its annotation {keys.QUEUE_NAMESPACES} '
            f"names {', '.join(listed[:_SHOWN])}{more}; use another queue, or ask the owner of the queue to add the namespace"
        )
        return field_verdict([forbidden("queue", sentence)])
    return ALLOWED


class WaitingLookup(Protocol):
    """The Jobs that have not started."""

    def count(self, queues: Collection[str], person: str, service_class: str, *, but: Key) -> int | None:
        """Return how many Jobs of a person but one wait in these queues; None while nobody knows. An empty class counts all."""
        ...

    def allow(self, key: Key, queue: str, person: str, service_class: str) -> None:
        """Count a Job that is about to be created."""
        ...


class WaitingUnknown(Exception):
    """Nobody knows yet how many Jobs wait. The message names the queue."""


def check_waiting(job: Mapping[str, Any], queues: QueueLookup, waiting: WaitingLookup) -> str:
    """Return why a new Job is one too many of its person that waits; empty when it is not. It counts from now on.

    Raises WaitingUnknown: a limit applies, and the Jobs are not counted yet.
    """
    metadata, own = mapping(job.get("metadata")), _of_spec(job.get("spec"))
    key = Key(text(metadata.get("namespace")), text(metadata.get("name")))
    person, its_class = _person_and_class(job)
    is_limited, seen, queue = False, set[str](), queues.get(own)
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        limits = _limits_of(queue)
        for counted, each in limits.of(person, its_class) if limits is not None else ():
            if each.waiting_jobs is None:
                continue
            is_limited = True
            count = waiting.count(_subtree(queue.name, queues), person, counted, but=key)
            if count is None:
                raise WaitingUnknown(f"the waiting Jobs of queue {queue.name} are not counted yet, try again")
            if count >= each.waiting_jobs:
                of_class = f" of class {counted}" if counted else ""
                may = f"may have at most {each.waiting_jobs} waiting Jobs{of_class} in queue {queue.name}, and has {count}"
                return f"{person} {may}; submit again when some of them have started"
        queue = queues.get(queue.parent or ROOT_QUEUE)
    if is_limited:
        waiting.allow(key, own, person, its_class)
    return ""


def _person_and_class(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = mapping(body.get("metadata"))
    annotations = {keys.SUBMITTED_BY: text(mapping(metadata.get("annotations")).get(keys.SUBMITTED_BY))}
    return person_of(annotations, text(metadata.get("namespace"))), text(_labels(body).get(keys.SERVICE_CLASS)) or NORMAL


def _subtree(name: str, queues: QueueLookup) -> list[str]:
    found = [name]
    for each in found:  # grows meanwhile
        found += [child.name for child in queues.children(each) if child.name not in found]
    return found


def check_class(body: Mapping[str, Any], old: Mapping[str, Any]) -> Verdict:
    """Return the verdict on changing `old`: the class of service stays, because limits count by it."""
    if _labels(body).get(keys.SERVICE_CLASS) == _labels(old).get(keys.SERVICE_CLASS):
        return ALLOWED
    return field_verdict([forbidden(CLASS_PATH, "the class of service cannot be changed; create another Job")])


def _limits_of(queue: QueueView) -> PersonLimits | None:
    try:
        return None if queue.person_limits is None else read_person_limits(queue.person_limits)
    except PersonLimitsError:
        return None


def _class_fault(queue: QueueView, body: Mapping[str, Any]) -> str:
    limits = _limits_of(queue)
    return "" if limits is None else limits.class_fault(text(_labels(body).get(keys.SERVICE_CLASS)) or NORMAL)


def _run_time_fault(queue: QueueView, body: Mapping[str, Any]) -> str:
    """Return why the declared run time of a Job is too long; empty when it is not, or none is declared."""
    limits, estimate = _limits_of(queue), text(mapping(body.get("spec")).get("runningEstimate"))
    most = limits.run_seconds(*_person_and_class(body)) if limits is not None and estimate else None
    try:
        is_longer = most is not None and nanoseconds(estimate) > most * 1e9
    except DurationError:
        return ""
    return f"a Job may run for at most {shown(int((most or 0) * 1e9))} in queue {queue.name}" if is_longer else ""


def _labels(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(body.get("metadata")).get("labels"))
