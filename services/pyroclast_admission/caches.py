"""The informers of the admission service, except those of queues. With them, no review waits for the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.person_limits import class_of, person_of
from pyroclast.api.records import JobFlow, JobTemplate, Namespace, PriorityClass, ResourceQuota
from pyroclast.api.records.meta import Meta, ObjectRecord, Wire
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, NAMESPACES, PRIORITY_CLASSES, RESOURCE_QUOTAS, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.flow.checks import EntryKnowledge
from pyroclast.rules.lookups import DEFAULT_QUEUE, FlowView
from pyroclast.rules.values import amount, mapping, mappings, string_items
from pyroclast.runtime.in_process.queues import QueueCache

LOOK_SECONDS: Final = 1.0
"""How often is looked whether a queue limits the waiting Jobs."""

ALLOWED_SECONDS: Final = 5.0
"""Time in seconds for which an allowed Job counts before the informer has it. Later, it was refused by another webhook."""

MOST_ALLOWED: Final = 10_000
_OWN_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


def flow_view(flow: JobFlow) -> FlowView | None:
    """Return the name and phase of a JobFlow for the rules. None for a deleted flow, which needs no template any more."""
    return None if flow.metadata.is_terminating else FlowView(flow.metadata.name, flow.status.state.phase)


class FlowCache:
    """An informer of JobFlows with an index by the templates that their entries name."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(
            client,
            JOB_FLOWS,
            JobFlow,
            indexers={"template": lambda flow: (f"{flow.metadata.namespace}/{entry.name}" for entry in flow.spec.flows)},
        )

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        """Return the flows in `namespace` that have an entry with the name `template` and are not being deleted."""
        flows = self.informer.by_index("template", f"{namespace}/{template}")
        return [view for flow in flows if (view := flow_view(flow)) is not None]


class TemplateCache(EntryKnowledge):
    """An informer of JobTemplates, with which the rules check the entries of flows."""

    def __init__(self, client: Client) -> None:
        super().__init__(self._spec)
        self.informer = Informer(client, JOB_TEMPLATES, JobTemplate)

    def _spec(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        template = self.informer.get(Key(namespace, name))
        return msgspec.json.decode(bytes(template.spec)) if template is not None and bytes(template.spec) else None


class PriorityCache:
    """The names of the PriorityClasses. The two `system-` classes of Kubernetes exist on every cluster."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, PRIORITY_CLASSES, PriorityClass)

    def __contains__(self, name: object) -> bool:
        return name in _OWN_CLASSES or self.informer.get(Key("", str(name))) is not None


class QuotaCache:
    """An informer of ResourceQuotas, for the PriorityClasses that they forbid in their namespace."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(
            client, RESOURCE_QUOTAS, ResourceQuota, indexers={"namespace": lambda quota: (quota.metadata.namespace,)}
        )

    def forbidding(self, namespace: str, class_name: str) -> str:
        """Return the name of a quota that allows no pods of the PriorityClass; empty when there is none."""
        quotas = self.informer.by_index("namespace", namespace)
        return min((quota.metadata.name for quota in quotas if forbids(quota, class_name)), default="")


_OF_PODS: Final = frozenset({"pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory"})


def forbids(quota: ResourceQuota, class_name: str) -> bool:
    """Whether the quota is for pods of this PriorityClass alone, and allows none of them."""
    rules = [each for _, each in mappings(mapping(quota.spec.scope_selector).get("matchExpressions"))]
    if not rules or any(each.get("scopeName") != "PriorityClass" or not _selects(each, class_name) for each in rules):
        return False
    return not quota.spec.scopes and any(
        name in _OF_PODS and (limit := amount(value)) is not None and limit.millis <= 0 for name, value in quota.spec.hard.items()
    )


def _selects(rule: Mapping[str, Any], class_name: str) -> bool:
    is_in = class_name in string_items(rule.get("values"))
    return {"In": is_in, "NotIn": not is_in, "Exists": True}.get(str(rule.get("operator")), False)


class NamespaceCache:
    """An informer of Namespaces, for their annotations."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, NAMESPACES, Namespace)

    def annotations(self, name: str) -> Mapping[str, Any]:
        """Return the annotations of the namespace, empty when the namespace does not exist."""
        namespace = self.informer.get(Key("", name))
        return namespace.metadata.annotations if namespace is not None else {}


class _State(Wire, frozen=True, kw_only=True):
    phase: str = ""


class _Status(Wire, frozen=True, kw_only=True):
    state: _State = _State()


class _Spec(Wire, frozen=True, kw_only=True):
    queue: str = ""


class _Job(ObjectRecord, frozen=True, kw_only=True):
    """The fields of a Job that are needed to count it."""

    metadata: Meta = Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def places(self) -> tuple[str, ...]:
        """The index key of a Job that has not started; none for another Job."""
        if self.status.state.phase not in ("", JobPhase.PENDING) or self.metadata.is_terminating:
            return ()
        return (_place(self.spec.queue or DEFAULT_QUEUE, person_of(self.metadata.annotations, self.metadata.namespace)),)


def _place(queue: str, person: str) -> str:
    return f"{queue}/{person}"  # the name of a queue has no slash


class WaitingJobs:
    """Counts the Jobs that have not started, by queue, person and class of service.

    The Jobs are only followed while a queue limits them. A Job that was allowed counts at once, before the informer has it.
    """

    def __init__(self, client: Client, queues: QueueCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.informer = Informer(client, JOBS, _Job, indexers={"place": lambda job: job.places})
        self._queues, self._clock = queues, clock
        self._allowed: dict[Key, tuple[float, str, str]] = {}

    async def run(self) -> None:
        """Follow the Jobs from when a queue limits them, until cancelled."""
        while not any('"waitingJobs"' in (view.person_limits or "") for view in self._queues.all()):
            await asyncio.sleep(LOOK_SECONDS)
        await self.informer.run()

    def count(self, queues: Collection[str], person: str, service_class: str, *, but: Key) -> int | None:
        """Return how many Jobs of a person but one wait in these queues; None while nobody knows. An empty class counts all."""
        if not self.informer.has_synced:
            return None
        now, places = self._clock(), {_place(queue, person) for queue in queues}
        waiting = {
            job.metadata.key: class_of(job.metadata.labels) for each in places for job in self.informer.by_index("place", each)
        }
        for key, (until, place, its_class) in list(self._allowed.items()):
            if until <= now or self.informer.get(key) is not None:
                self._allowed.pop(key, None)
            elif place in places:
                waiting[key] = its_class
        return sum(service_class in ("", each) for key, each in waiting.items() if key != but)

    def allow(self, key: Key, queue: str, person: str, service_class: str) -> None:
        """Count a Job that is about to be created."""
        if len(self._allowed) < MOST_ALLOWED:
            self._allowed[key] = (self._clock() + ALLOWED_SECONDS, _place(queue, person), service_class)
