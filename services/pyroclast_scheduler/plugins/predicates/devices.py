"""ResourceClaims: the nodes on which a pod can use them, the devices that it gets, and the writes before its bind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast.api.types import RESOURCE_CLAIMS
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model.claims import device_claims, shared_claims
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.model.triggers import ClaimRelease, DeviceRelease, ObjectChange, Trigger
from pyroclast_scheduler.plugins.predicates.allocation import DeviceRequest, Market, Picked, wishes_of
from pyroclast_scheduler.plugins.predicates.pools import BadSelector, CounterId, DeviceId, Offer, Pools, Selectors, node_selector
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.outcome import Await, Preparation, Write
from pyroclast_scheduler.session.plugin_session import PluginSession

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_MOST_CONSUMERS: Final = 256
_READY_SECONDS: Final = 600.0  # as kube-scheduler's bindingTimeout
_ELSEWHERE: Final = "resourceclaim not available on the node"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_SHARED: Final = "; devices that several claims may share (allowMultipleAllocations) are not allocated by this scheduler"
_NONE_LEFT: Final = "cannot allocate all claims"
_DEVICES: Final = frozenset[Trigger]({
    ClaimRelease(),  # a released pod may have devices that were never used
    DeviceRelease(),
    ObjectChange(records.ResourceSlice),
    ObjectChange(records.DeviceClass),
    ObjectChange(records.DeviceTaintRule),
})  # fmt: skip
"""The triggers after which a claim without devices may get some."""
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Devices(NodeBook[list[Offer], list[Picked]]):
    """The free devices of the nodes (DRA), used when a pod is placed and freed when the placement is undone.

    A claim gets its devices with its first pod and frees them with its last. Devices of evicted pods stay in use.
    """

    def __init__(self, session: PluginSession) -> None:
        super().__init__(session)
        self._claims = session.told_objects(records.ResourceClaim)
        self._classes = session.told_objects(records.DeviceClass)
        self._selectors = Selectors()
        self._picked: dict[str, list[Picked]] = {}  # by claim, in this session
        self._users: dict[str, list[TaskFacts]] = {}  # by claim, pods placed in this session
        self._written: set[str] = set()

    @cached_property
    def _pools(self) -> Pools:
        slices = list(self.session.told_objects(records.ResourceSlice).values())
        rules = self.session.told_objects(records.DeviceTaintRule).values()
        return Pools(slices, self.session.snapshot.rows, self.session.features, [each.spec for each in rules])

    @property
    def _none_left(self) -> str:
        return _NONE_LEFT + (_SHARED if self._pools.has_shared else "")

    @cached_property
    def _reaching(self) -> Bools:
        """The nodes that can use any device."""
        found: Bools = np.zeros(len(self.session.names), dtype=np.bool_)
        found[list(self._pools.rows(len(found)))] = True
        return found

    @cached_property
    def _taken(self) -> Counter[DeviceId]:
        return Counter(
            (each.driver, each.pool, each.device)
            for claim in self._claims.values()
            if claim.status.allocation is not None
            for each in claim.status.allocation.devices.results
            if not each.admin_access
        )

    @cached_property
    def _market(self) -> Market:
        return Market(self._taken, self._classes, self._selectors, self._pools.uses, self._left)

    @cached_property
    def _left(self) -> Counter[CounterId]:
        left = Counter(self._pools.counters)
        for device, count in self._taken.items():
            if count:
                left.subtract(self._pools.uses.get(device, {}))
        return left

    @cached_property
    def _extended(self) -> Mapping[str, str]:
        """The extended resources that device classes offer, with the class, except those that nodes have."""
        named = {each.spec.extended_resource_name: name for name, each in self._classes.items()}
        named |= {f"{_IMPLICIT}{name}": name for name in self._classes}
        dimensions, total = self.session.dimensions, self.session.total
        return {
            name: offered
            for name, offered in named.items()
            if name and ((row := dimensions.find(name)) is None or not total[row])
        }

    def unserved(self, shape: Shape) -> str | None:
        """Return that the pod requests an extended resource of a device class, which this scheduler does not allocate."""
        if not self._classes or (name := next((each for each in shape.request if each in self._extended), None)) is None:
            return None
        offered = f"extended resource {name} is offered by DeviceClass {self._extended[name]}"
        return f"{offered}; this scheduler allocates devices to ResourceClaims only: use a ResourceClaim of this class"

    def absent(self, task: TaskFacts) -> str | None:
        """Return why no node is feasible for the pod in any state."""
        for name, key in device_claims(task.pod).items():
            if key is None:
                return f'waiting for the resource claim controller to create the claim "{name}"'
            claim = self._claims.get(key)
            if claim is None:
                return f'resourceclaim "{key.partition("/")[2]}" not found'
            if claim.metadata.is_terminating:
                return f'resourceclaim "{claim.metadata.name}" is being deleted'
            users = {each.uid for each in claim.status.reserved_for}
            users |= {self._consumer(key, each)["uid"] for each in self._users.get(key, ())}
            if self._consumer(key, task)["uid"] not in users and len(users) >= _MOST_CONSUMERS:
                return f'resourceclaim "{claim.metadata.name}" is in use by {_MOST_CONSUMERS} pods'
        return None

    def lacking(self, task: TaskFacts, nodes: Bools) -> list[Refusal]:
        """Return the nodes on which the pod cannot get its devices. Only `nodes` are examined for free devices."""
        reached: Bools = np.ones(len(nodes), dtype=np.bool_)
        for selector in self._selected(task):
            if selector is not None:
                reached &= self.session.features.matching(selector.get("nodeSelectorTerms") or ())
        found = [Refusal(~reached, _ELSEWHERE, Code.UNRESOLVABLE)]
        if self._wishes(task):
            found += self.refusals(task, nodes & self._reaching)
            found.append(Refusal(~self._reaching, self._none_left, Code.UNRESOLVABLE))
        return found

    def retry_when(self, task: TaskFacts) -> set[Trigger]:
        """Return the triggers, besides changes of the nodes, that may change the nodes on which the pod can get its devices."""
        if not task.pod.spec.resource_claims:
            return set()
        return {*_DEVICES, *(ObjectChange(records.ResourceClaim, key) for key in _keys(task))}

    def wants(self, task: TaskFacts) -> bool:
        """Whether the pod has ResourceClaims."""
        return bool(_keys(task))

    def kind(self, task: TaskFacts) -> Hashable:
        """Return the device requests of the pod's claims that are not allocated yet, independent of the names of the claims."""
        wishes = self._wishes(task)
        order = {key: number for number, key in enumerate(dict.fromkeys(wish.claim for wish in wishes))}
        return _ENCODER.encode([(order[wish.claim], wish.name, wish.ways, wish.constraints) for wish in wishes])

    def state(self, row: int) -> list[Offer]:
        """Return the devices that the node can use. The users of devices are recorded for all nodes together."""
        return self._pools.of(row)

    def examine(self, state: list[Offer], task: TaskFacts) -> float:
        """Return 0, since all nodes with free devices are equal."""
        self._meet(state, task)
        return 0.0

    def choose(self, state: list[Offer], task: TaskFacts) -> list[Picked]:
        """Return devices for all claims without devices; none for a pod that was placed although there are none."""
        try:
            return self._meet(state, task)
        except Refused:
            return []

    def _meet(self, state: list[Offer], task: TaskFacts) -> list[Picked]:
        wishes = self._wishes(task)
        try:
            picked = self._market.meet(wishes, state) if wishes else []
        except BadSelector as error:
            raise Refused(str(error), Code.ERROR) from None
        if picked is None:
            raise Refused(self._none_left, Code.UNRESOLVABLE)
        return picked

    def take(self, state: list[Offer], task: TaskFacts, claim: list[Picked]) -> None:
        """Record the pod as a user of its claims, with the chosen devices."""
        del state
        for key in _keys(task):
            self._users.setdefault(key, []).append(task)
        for each in claim:
            self._picked.setdefault(each.claim, []).append(each)
        self._count(claim, 1)

    def undo(self, state: list[Offer], task: TaskFacts, claim: list[Picked]) -> None:
        """Remove the pod from its claims. The devices of a claim with other users stay in use."""
        del state, claim
        for key in _keys(task):
            self._users[key].remove(task)
            if not self._users[key]:
                self._count(self._picked.pop(key, []), -1)

    def _count(self, picked: Sequence[Picked], sign: int) -> None:
        for each in picked:
            if not each.wish.is_for_admin:
                self._taken[each.offer.id] += sign
                for counter, amount in self._pools.uses.get(each.offer.id, {}).items():
                    self._left[counter] -= sign * amount
            if not self._pools.is_own(each.offer):
                self.changed_everywhere()

    def pre_bind(self, task: Task) -> Preparation | None:
        """Return the writes for the claims of a pod before its bind."""
        writes: list[Write] = []
        awaits: list[Await] = []
        for key in device_claims(task.facts.pod).values():
            claim = self._claims.get(key or "")
            if claim is not None and key is not None:
                writes += self._writes(key, claim, task)
                if self._must_be_ready(key, claim):
                    awaits.append(Await(records.ResourceClaim, key, are_ready, _READY_SECONDS))
        return Preparation(writes=tuple(writes), awaits=tuple(awaits)) if writes or awaits else None

    def _must_be_ready(self, key: str, claim: records.ResourceClaim) -> bool:
        """Whether devices of the claim must be prepared for the node before pods are bound to it."""
        if claim.status.allocation is not None:
            return are_ready(claim) is not True
        return any(each.offer.device.binding_conditions for each in self._picked.get(key, []))

    def _writes(self, key: str, claim: records.ResourceClaim, task: Task) -> list[Write]:
        listed: list[dict[str, Any]] = msgspec.to_builtins(claim.status.reserved_for)
        known = [{name: value for name, value in each.items() if value} for each in listed]
        uids = {each.uid for each in claim.status.reserved_for}
        own = self._consumer(key, task.facts)["uid"]
        if claim.status.allocation is not None and own in uids:
            return []
        tasks = self._users.get(key, ())
        users = {each["uid"]: each for each in (self._consumer(key, user) for user in tasks) if each["uid"] not in uids}
        consumers = [*known, *users.values()]
        status: dict[str, Any] = {"reservedFor": consumers}
        undo: dict[str, Any] = {"reservedFor": [each for each in consumers if each.get("uid") != own]}
        if claim.status.allocation is None:
            status["allocation"] = self._allocation(key, claim, task.row)
            if len(users) == 1:
                undo |= {"allocation": None, "devices": None}
        guard = {"uid": claim.metadata.uid}
        writes: list[Write] = []
        if key not in self._written:
            self._written.add(key)
            version = {"resourceVersion": claim.metadata.resource_version}
            if _FINALIZER in claim.metadata.finalizers:
                guard |= version
            else:
                metadata = {**guard, **version, "finalizers": [*claim.metadata.finalizers, _FINALIZER]}
                writes.append(Write(RESOURCE_CLAIMS, claim.key, {"metadata": metadata}, record=records.ResourceClaim))
        patch, back = {"metadata": guard, "status": status}, {"metadata": {"uid": claim.metadata.uid}, "status": undo}
        is_shared = own != task.uid  # other pods of the group use the claim too
        writes.append(Write(RESOURCE_CLAIMS, claim.key, patch, back, "status", records.ResourceClaim, is_shared=is_shared))
        return writes

    def _consumer(self, key: str, task: TaskFacts) -> dict[str, str]:
        """Return the object for which the claim is reserved: the group if the claim is the group's, else the pod."""
        job = self.session.job(task.job)
        if job is not None and (path := job.path(task.part)):
            if key in shared_claims(task.pod, path[-1].claims):
                return dict(path[-1].consumer)
        elif job is not None and key in shared_claims(task.pod, job.facts.group.spec.claims):
            kind, meta = job.facts.group.kind, job.facts.group.metadata
            return {"apiGroup": kind.group, "resource": kind.plural, "name": meta.name, "uid": meta.uid}
        return {"resource": "pods", "name": task.name, "uid": task.uid}

    def _allocation(self, key: str, claim: records.ResourceClaim, row: int) -> dict[str, Any]:
        picked = self._picked.get(key, [])
        results: list[dict[str, Any]] = []
        configuration: list[dict[str, Any]] = []
        for each in picked:
            driver, pool, device = each.offer.id
            result: dict[str, Any] = {"request": each.request, "driver": driver, "pool": pool, "device": device}
            found = each.offer.device
            if found.binding_conditions:
                result["bindingConditions"] = list(found.binding_conditions)
                result["bindingFailureConditions"] = list(found.binding_failure_conditions)
            results.append(result | ({"adminAccess": True} if each.wish.is_for_admin else {}))
        for name, wish in {each.request: each.wish for each in picked}.items():
            own = self._classes[wish.device_class_name].spec.config
            configuration += [{"source": "FromClass", "requests": [name], **each} for each in own]
        configuration += [{"source": "FromClaim", **each} for each in claim.spec.devices.config]
        allocation: dict[str, Any] = {"devices": {"results": results, "config": configuration}}
        selector = _common([each.offer.nodes for each in picked])
        if any(each.offer.device.binding_conditions for each in picked):
            allocation["allocationTimestamp"] = format_time(self.session.ports.now)
            if any(each.offer.device.binds_to_node for each in picked):
                selector = _common([selector, node_selector(self.session.names[row])])
        return allocation | ({} if selector is None else {"nodeSelector": selector})

    def _selected(self, task: TaskFacts) -> list[Mapping[str, Any] | None]:
        """Return the node selectors of the claims that have devices; None for all nodes."""
        found: list[Mapping[str, Any] | None] = []
        for key in device_claims(task.pod).values():
            claim = self._claims.get(key or "")
            if claim is not None and claim.status.allocation is not None:
                found.append(claim.status.allocation.node_selector)
            elif key is not None and self._users.get(key):
                found.append(_common([each.offer.nodes for each in self._picked.get(key, [])]))
        return found

    def _wishes(self, task: TaskFacts) -> list[DeviceRequest]:
        found: list[DeviceRequest] = []
        for key in device_claims(task.pod).values():
            claim = self._claims.get(key or "")
            if claim is not None and key is not None and claim.status.allocation is None and not self._users.get(key):
                found += wishes_of(key, claim)
        return found


def are_ready(claim: records.ResourceClaim | None) -> bool | str:
    """Return whether all devices of a claim are ready for its node, or the reason why they can never be."""
    if claim is None:
        return "the claim is gone"
    allocation = claim.status.allocation
    if allocation is None:
        return False
    said = {(each.driver, each.pool, each.device): each.conditions for each in claim.status.devices}
    is_ready = True
    for each in allocation.devices.results:
        true = {found.type for found in said.get((each.driver, each.pool, each.device), ()) if found.status == "True"}
        if failed := true.intersection(each.binding_failure_conditions):
            return f"device {each.device} of claim {claim.metadata.name} cannot be made ready: {min(failed)}"
        is_ready &= true.issuperset(each.binding_conditions)
    return is_ready


def _keys(task: TaskFacts) -> list[str]:
    return [key for key in device_claims(task.pod).values() if key is not None]


def _common(selectors: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return the nodes that all selectors, with one term each, select; None for all nodes."""
    terms = [(each.get("nodeSelectorTerms") or [{}])[0] for each in selectors if each is not None]
    if not terms:
        return None
    merged: dict[str, list[Any]] = {}
    for term in terms:
        for kind in ("matchExpressions", "matchFields"):
            known = merged.setdefault(kind, [])
            known += [each for each in term.get(kind) or () if each not in known]
    return {"nodeSelectorTerms": [{kind: each for kind, each in merged.items() if each}]}
