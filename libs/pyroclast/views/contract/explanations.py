"""Documents about one object: why a Job waits, the resources of a queue or node, the entries of a flow."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from pyroclast.api.waiting_reasons import PendingReason

ApiVersion = Literal["view.pyroclast.dev/v1"]
Quantities = dict[str, str]
"""Kubernetes quantities by resource."""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document or an object inside a document. A field that may be absent has the default `UNSET`."""


class NamedObject(Record, frozen=True, kw_only=True):
    """The object that a document describes."""

    name: str | None
    namespace: str | UnsetType | None = UNSET


class ShortResource(Record, frozen=True, kw_only=True):
    """A requested resource, as quantities; a field is null when the code does not need it."""

    resource: str
    asked: str
    used: str | None = None
    promised: str | None = None
    limit: str | None = None
    free: str | None = None
    largest: str | None = None


class Position(Record, frozen=True, kw_only=True):
    """The position among the waiting Jobs of the queue, from 1."""

    position: int
    total: int


class NamedJob(Record, frozen=True, kw_only=True):
    """Another Job, and the requests of its gang."""

    namespace: str
    name: str
    asks: Quantities


class Ahead(Record, frozen=True, kw_only=True):
    """The Jobs ahead in the queue: three by name, and the number of `others`. `amount` of `resource` is the sum of their
    requests.
    """

    jobs: list[NamedJob]
    others: int
    resource: str | None = None
    amount: str | None = None


class Holder(Record, frozen=True, kw_only=True):
    """A Job that has `amount` of the scarce resource; name and namespace are null for the `others`, which are counted
    together.
    """

    namespace: str | None
    name: str | None
    amount: str
    resource: str
    asks: Quantities | UnsetType = UNSET
    others: int | UnsetType = UNSET
    until: str | None = None
    nodes: list[str] | UnsetType = UNSET


class StartEstimate(Record, frozen=True, kw_only=True):
    """When the Job is likely to start; times are RFC 3339."""

    earliest: str
    likely: str
    latest: str
    basis: str


class Change(Record, frozen=True, kw_only=True):
    """A change that was tried in a dry run, with its result."""

    text: str
    change: str
    kind: str
    value: str | int | None
    evictions: int
    when: str
    position: int | None
    code: PendingReason | None


class PastCause(Record, frozen=True, kw_only=True):
    """A code, and since when it applied."""

    code: PendingReason
    since: str


class StoryStep(Record, frozen=True, kw_only=True):
    """Something that happened to a Job, in words for people; `at` is null when the time is unknown."""

    at: str | None
    what: str
    text: str


class ContainerEnd(Record, frozen=True, kw_only=True):
    """How the container ended that failed first; pod, container and node are null if only the recorder knows of it."""

    pod: str | None
    container: str | None
    node: str | None
    exit_code: int | None
    signal: int | None
    reason: str | None
    ended: str | None


class Story(Record, frozen=True, kw_only=True):
    """What happened to a Job, oldest first. `unknown`: the sources that did not answer, and why. `next`: the command that helps.

    `log`: the last lines of the container `logOf`, which is `POD/CONTAINER`.
    """

    steps: list[StoryStep]
    end: ContainerEnd | None
    log: list[str]
    log_of: str | None
    unknown: list[str]
    next: str


class Explanation(Record, frozen=True, kw_only=True):
    """Why a Job waits. `code` is null for a Job that does not wait; then only the first fields and `story` are present.

    `complete`: true when the scheduler answered; false for the cause that stands in the objects of the API server, which was last
    `seen` by the scheduler at that time. `startReason`, `changeReason` and `trailReason` say why there is no start, no change, or
    no older code.
    """

    api_version: ApiVersion
    kind: Literal["Explanation"]
    metadata: NamedObject
    queue: str
    code: PendingReason | None
    never: bool
    sentence: str
    as_of: str
    complete: bool
    phase: str | UnsetType = UNSET
    sees_whole_cluster: bool | UnsetType = UNSET
    since: str | UnsetType = UNSET
    waited_seconds: int | UnsetType = UNSET
    resources: list[ShortResource] | UnsetType = UNSET
    position: Position | UnsetType = UNSET
    ahead: Ahead | UnsetType = UNSET
    holders: list[Holder] | UnsetType = UNSET
    start: StartEstimate | None = None
    start_reason: str | UnsetType = UNSET
    change: list[Change] | UnsetType = UNSET
    change_reason: str | UnsetType = UNSET
    trail: list[PastCause] | UnsetType = UNSET
    trail_reason: str | UnsetType = UNSET
    help: str | UnsetType = UNSET
    doc: str | UnsetType = UNSET
    seen: str | UnsetType = UNSET
    story: Story | UnsetType = UNSET


class QueueResource(Record, frozen=True, kw_only=True):
    """One resource of a queue, as quantities."""

    resource: str
    guarantee: str | None
    deserved: str | None
    allocated: str
    borrowed: str | None
    limit: str | None


class OwedRoom(Record, frozen=True, kw_only=True):
    """The room that is kept for a gang that was let in and has not started, and why; nothing is `owed` if it is held up.

    The name is null if the reader may not see Jobs of its namespace.
    """

    namespace: str | None
    name: str | None
    priority: int
    owed: Quantities
    why: str


class QueueExplanation(Record, frozen=True, kw_only=True):
    """The resources of a queue, and the number of its waiting Jobs by code. `promises`: absent without the scheduler."""

    api_version: ApiVersion
    kind: Literal["QueueExplanation"]
    metadata: NamedObject
    state: str | None
    parent: str | None
    waiting: int
    running: int
    oldest_seconds: int | None
    resources: list[QueueResource]
    codes: dict[str, int]
    promises: list[OwedRoom] | UnsetType = UNSET


class NodeHolder(Record, frozen=True, kw_only=True):
    """A Job with pods on a node."""

    name: str
    pods: int
    asks: Quantities


class NodeExplanation(Record, frozen=True, kw_only=True):
    """The resources of a node, why pods are kept off the node, and the Jobs on the node."""

    api_version: ApiVersion
    kind: Literal["NodeExplanation"]
    metadata: NamedObject
    state: str
    taints: list[str]
    allocatable: Quantities
    free: Quantities
    reserved_for: list[str]
    holders: list[NodeHolder]


class FlowEntryState(Record, frozen=True, kw_only=True):
    """An entry of a flow; `code` is null when neither the entry nor its Job waits.

    `outputs` is JSON as text, a list by round for a loop; null when there are none.
    """

    name: str
    depth: int
    phase: str
    message: str
    elapsed_seconds: int | None
    depends_on: list[str]
    rounds: int
    rounds_running: int
    code: PendingReason | None
    outputs: str | None


class FlowTree(Record, frozen=True, kw_only=True):
    """The entries of a flow by depth."""

    api_version: ApiVersion
    kind: Literal["FlowTree"]
    metadata: NamedObject
    phase: str | None
    entries: list[FlowEntryState]
