"""What rules know besides the object: options and lookups that the caller supplies, and which queues are read again in doubt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

from pyroclast.api import keys
from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.rules.values import amount, mapping, text
from pyroclast.rules.verdicts import Verdict

ROOT_QUEUE = "root"
DEFAULT_QUEUE = "default"

MOST_PODS: Final = 50_000
"""The most pods of one Job by default: ten times the nodes that Kubernetes supports, and far below what stops a controller."""

COMPLETE_PHASES = ("Succeed", "Failed")
"""Phases in which a JobFlow starts no more Jobs."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The fields of a Queue that rules read. Resource lists map names to quantities in JSON.

    `namespaces`: the namespaces that may use the queue; None when the queue does not name them, so that all may.
    `person_limits`: the limits of each person, as the annotation has them.
    """

    name: str
    parent: str = ""
    state: str = ""
    hierarchy: str = ""
    hierarchy_weights: str = ""
    capability: Mapping[str, Any] = field(default_factory=dict)
    deserved: Mapping[str, Any] = field(default_factory=dict)
    guarantee: Mapping[str, Any] = field(default_factory=dict)
    allocated_pods: int = 0
    budget: str | None = None
    namespaces: Collection[str] | None = None
    person_limits: str | None = None

    @classmethod
    def of(cls, queue: Mapping[str, Any], *, name: str = "") -> QueueView:
        """Return the view of a Queue object. `name`: the name of an object without metadata (a deletion)."""
        metadata, spec, status = mapping(queue.get("metadata")), mapping(queue.get("spec")), mapping(queue.get("status"))
        annotations = mapping(metadata.get("annotations"))
        pods = amount(mapping(status.get("allocated")).get("pods"))
        return cls(
            name=text(metadata.get("name")) or name,
            parent=text(spec.get("parent")),
            state=text(status.get("state")),
            hierarchy=text(annotations.get(keys.HIERARCHY)),
            hierarchy_weights=text(annotations.get(keys.HIERARCHY_WEIGHTS)),
            capability=mapping(spec.get("capability")),
            deserved=mapping(spec.get("deserved")),
            guarantee=mapping(mapping(spec.get("guarantee")).get("resource")),
            allocated_pods=pods.value if pods is not None else 0,
            budget=_text_or_none(annotations.get(keys.QUEUE_BUDGET)),
            namespaces=namespaces_in(annotations.get(keys.QUEUE_NAMESPACES)),
            person_limits=_text_or_none(annotations.get(keys.QUEUE_PERSON_LIMITS)),
        )

    @property
    def is_open(self) -> bool:
        """Whether the queue accepts jobs. A new queue has no state yet, and counts as open."""
        return self.state in ("", "Open")


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def namespaces_in(annotation: object) -> frozenset[str] | None:
    """Return the namespaces that the annotation of a Queue names; None without the annotation."""
    return frozenset(name.strip() for name in annotation.split(",")) if isinstance(annotation, str) else None


class QueueLookup(Protocol):
    """The queues of the cluster."""

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        ...

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues whose parent has that name, ordered by name."""
        ...

    def all(self) -> Sequence[QueueView]:
        """Return all queues."""
        ...


@dataclass(frozen=True, slots=True)
class FlowView:
    """The fields of a JobFlow that rules read: its name and its phase."""

    name: str
    phase: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the flow starts no more Jobs."""
        return self.phase in COMPLETE_PHASES


FlowLookup: TypeAlias = Callable[[str, str], Sequence[FlowView]]
"""Returns the JobFlows of a namespace that use the JobTemplate of that name and are not being deleted."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What an installation allows in Jobs.

    `pod_level_resources`: whether the cluster supports resources of whole pods. `schedulers`: those that may place pods of Jobs,
    so that no pod escapes its queue; None allows every scheduler, and pods that name their node. `forbids_class` returns the
    ResourceQuota that leaves no room for a PriorityClass in the namespace; empty when none does. `made` returns the objects that
    will be made for a Job: who asks for each, its manifest, and for a pod the index of its task.
    """

    plugins: Collection[str] = tuple(BUILT_IN)
    pod_level_resources: bool = True
    max_pods: int = MOST_PODS
    schedulers: Collection[str] | None = None
    forbids_class: Callable[[str], str] = lambda _: ""
    made: Callable[[Mapping[str, Any]], Iterable[tuple[str, Mapping[str, Any], int | None]]] = lambda _: ()


ANY_JOB: Final = JobOptions()
"""The options for checks without a cluster."""


class FlowKnowledge(Protocol):
    """The interface through which rules of flows use templates and expressions."""

    def patched(self, namespace: str, entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the spec of the Job of an entry; None without its template. ValueError: the patch does not fit the template."""
        ...

    def expression_faults(self, entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the field below the entry and the fault of each faulty expression, also of those in its patch."""
        ...

    def reads(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the field below the entry and the name of each entry that its expressions read."""
        ...


class _NothingKnown:
    def patched(self, *_: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the arguments of the protocol
        return None

    def expression_faults(self, *_: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see above
        return iter(())

    reads = expression_faults


NOTHING_KNOWN: Final[FlowKnowledge] = _NothingKnown()
"""The knowledge for checks without a cluster: no JobTemplate exists."""


def queue_not_found(name: str) -> str:
    """Return the API server's message for a queue that does not exist."""
    return f'queue.scheduling.volcano.sh "{name}" not found'


@dataclass(frozen=True, slots=True)
class OpenQueues:
    """A lookup without a cluster: the `known` queues, and any other as one that exists and is open."""

    known: Mapping[str, QueueView]

    def get(self, name: str) -> QueueView | None:
        """See `QueueLookup`."""
        return self.known.get(name) or QueueView(name, parent="" if name == ROOT_QUEUE else ROOT_QUEUE, state="Open")

    def children(self, name: str) -> Sequence[QueueView]:
        """See `QueueLookup`."""
        return [each for each in self.all() if each.parent == name]

    def all(self) -> Sequence[QueueView]:
        """See `QueueLookup`."""
        return [each for _, each in sorted(self.known.items())]


class NotedQueues:
    """A lookup in `queues` that reports to `note` the name of each queue which is missing or speaks against the request."""

    __slots__ = ("_note", "_queues")

    def __init__(self, queues: QueueLookup, note: Callable[[str], None]) -> None:
        self._queues, self._note = queues, note

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        view = self._queues.get(name)
        if name and (view is None or not view.is_open or view.namespaces is not None or view.person_limits is not None):
            self._note(name)
        return view

    def children(self, name: str) -> Sequence[QueueView]:
        """Return the queues whose parent is the queue `name`."""
        children = self._queues.children(name)
        for child in children:
            self._note(child.name)
        return children

    def all(self) -> Sequence[QueueView]:
        """Return all queues."""
        return self._queues.all()


class ReadQueues:
    """A lookup in `queues` in which the queues in `read` replace the cached ones; None for a queue that does not exist."""

    __slots__ = ("_queues", "_read")

    def __init__(self, queues: QueueLookup, read: Mapping[str, QueueView | None]) -> None:
        self._queues, self._read = queues, read

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        return self._read[name] if name in self._read else self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """Return the children of that queue, ordered by name."""
        return self._with_read(self._queues.children(name), parent=name)

    def all(self) -> Sequence[QueueView]:
        """Return all queues, ordered by name."""
        return self._with_read(self._queues.all())

    def _with_read(self, cached: Sequence[QueueView], *, parent: str | None = None) -> Sequence[QueueView]:
        read = (view for view in self._read.values() if view is not None and parent in (None, view.parent))
        return sorted((*(view for view in cached if view.name not in self._read), *read), key=attrgetter("name"))


def queue_warnings(record: Mapping[str, Any], queues: QueueLookup) -> Verdict:
    """Return a verdict that allows `record` and warns of each missing queue that it or its pod template names."""
    return Verdict(warnings=tuple(_warnings(record, queues)))


def _warnings(record: Mapping[str, Any], queues: QueueLookup) -> Iterator[str]:
    template = mapping(mapping(record.get("spec")).get("template"))
    for path, holder in (("metadata", record), ("spec.template.metadata", template)):
        metadata = mapping(holder.get("metadata"))
        for part in ("labels", "annotations"):
            name = text(mapping(metadata.get(part)).get(keys.SCHEDULING_QUEUE_NAME))
            if name and queues.get(name) is None:
                place = f"{path}.{part}[{keys.SCHEDULING_QUEUE_NAME}]"
                yield f'{place}: there is no queue "{name}"; the pods wait until there is one'
