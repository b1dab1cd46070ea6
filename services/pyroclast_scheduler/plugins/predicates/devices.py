"""Claims on devices: on which nodes a pod can have them, which it gets, and what is written before it is bound."""

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
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.model.retry_conditions import ClaimRelease, DeviceRelease, ObjectChange, Trigger
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.plugins.predicates.allocation import DeviceRequest, Market, Picked, wishes_of
from pyroclast_scheduler.plugins.predicates.pools import CounterId, DeviceId, Offer, Pools, node_selector
from pyroclast_scheduler.plugins.predicates.selectors import BadSelector, Selectors
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.outcome import Await, Preparation, Write
from pyroclast_scheduler.session.session import Session

__all__ = ["Devices", "are_ready"]

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_MOST_CONSUMERS: Final = 256
_READY_SECONDS: Final = 600.0  # as kube-scheduler's bindingTimeout
_ELSEWHERE: Final = "resourceclaim not available on the node"
_NONE_LEFT: Final = "cannot allocate all claims"
_DEVICES: Final = frozenset[Trigger]({
    ClaimRelease(),  # it may have been given devices in vain
    DeviceRelease(),
    ObjectChange(records.ResourceSlice),
    ObjectChange(records.DeviceClass),
})  # fmt: skip
"""What may give a claim its devices that has none."""
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Devices(NodeBook[list[Offer], list[Picked]]):
    """The free devices of the nodes (DRA): taken when a pod is placed, given back when the placement is undone.

    A claim gets its devices with its first pod and gives them back with its last. Devices of evicted pods stay taken.
    """

    def __init__(self, session: Session) -> None:
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
        return Pools(slices, self.session.snapshot.rows, self.session.features)

    @cached_property
    def _reaching(self) -> Bools:
        """The nodes that reach any device."""
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

    def absent(self, task: TaskFacts) -> str | None:
        """Why the pod cannot run anywhere, whatever nodes have."""
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
        """Nodes on which the pod cannot have its devices; whether they are left is asked of `nodes`."""
        reached: Bools = np.ones(len(nodes), dtype=np.bool_)
        for selector in self._selected(task):
            if selector is not None:
                reached &= self.session.features.matching(selector.get("nodeSelectorTerms") or ())
        found = [Refusal(~reached, _ELSEWHERE, Code.UNRESOLVABLE)]
        if self._wishes(task):
            found += self.refusals(task, nodes & self._reaching)
            found.append(Refusal(~self._reaching, _NONE_LEFT, Code.UNRESOLVABLE))
        return found

    def retry_when(self, task: TaskFacts) -> set[Trigger]:
        """What may change on which nodes the pod has its devices, beside a change of these nodes."""
        if not task.pod.spec.resource_claims:
            return set()
        return {*_DEVICES, *(ObjectChange(records.ResourceClaim, key) for key in _keys(task))}

    def wants(self, task: TaskFacts) -> bool:
        """Whether the pod has claims on devices."""
        return bool(_keys(task))

    def kind(self, task: TaskFacts) -> Hashable:
        """What its claims ask for that have no devices yet, whatever they are called."""
        wishes = self._wishes(task)
        order = {key: number for number, key in enumerate(dict.fromkeys(wish.claim for wish in wishes))}
        return _ENCODER.encode([(order[wish.claim], wish.name, wish.ways, wish.constraints) for wish in wishes])

    def state(self, row: int) -> list[Offer]:
        """The devices that the node reaches; who has which is told for all nodes together."""
        return self._pools.of(row)

    def examine(self, state: list[Offer], task: TaskFacts) -> float:
        """All nodes with devices for all claims that have none yet are alike."""
        self._meet(state, task)
        return 0.0

    def choose(self, state: list[Offer], task: TaskFacts) -> list[Picked]:
        """Devices for all claims that have none yet; none for a pod that was placed although they are not left."""
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
            raise Refused(_NONE_LEFT, Code.UNRESOLVABLE)
        return picked

    def take(self, state: list[Offer], task: TaskFacts, claim: list[Picked]) -> None:
        """Enter the pod with its claims, and the devices that are picked for these."""
        del state
        for key in _keys(task):
            self._users.setdefault(key, []).append(task)
        for each in claim:
            self._picked.setdefault(each.claim, []).append(each)
        self._count(claim, 1)

    def undo(self, state: list[Offer], task: TaskFacts, claim: list[Picked]) -> None:
        """Strike the pod out. Devices of a claim that others use too stay with it."""
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
        """What has to be written for the claims of a pod that is to be bound."""
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
        """Whether devices of the claim have to be made ready for a node before pods may go there."""
        if claim.status.allocation is not None:
            return are_ready(claim) is not True
        return any(each.offer.device.binding_conditions for each in self._picked.get(key, []))

    def _writes(self, key: str, claim: records.ResourceClaim, task: Task) -> list[Write]:
        known: list[Mapping[str, Any]] = [msgspec.to_builtins(each) for each in claim.status.reserved_for]
        known = [{name: value for name, value in each.items() if value} for each in known]
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
        is_shared = own != task.uid  # the others of its group go on with it
        writes.append(Write(RESOURCE_CLAIMS, claim.key, patch, back, "status", records.ResourceClaim, is_shared=is_shared))
        return writes

    def _consumer(self, key: str, task: TaskFacts) -> dict[str, str]:
        """For whom the claim is reserved that a pod uses: for its group where it is the group's, else for the pod."""
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
        """The nodes on which the claims can be used that have their devices; None: all."""
        found: list[Mapping[str, Any] | None] = []
        for key in device_claims(task.pod).values():
            claim = self._claims.get(key or "")
            if claim is not None and claim.status.allocation is not None:
                found.append(claim.status.allocation.node_selector)
            elif key is not None and self._users.get(key):
                found.append(_common([each.offer.nodes for each in self._picked.get(key, [])]))
        return found

    def _wishes(self, task: TaskFacts) -> list[DeviceRequest]:
        """What the claims ask for that have no devices yet."""
        found: list[DeviceRequest] = []
        for key in device_claims(task.pod).values():
            claim = self._claims.get(key or "")
            if claim is not None and key is not None and claim.status.allocation is None and not self._users.get(key):
                found += wishes_of(key, claim)
        return found


def are_ready(claim: records.ResourceClaim | None) -> bool | str:
    """Whether all devices of a claim are ready for its node; why they never will be, if so."""
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
    """The claims of a pod on devices, without those that are still to be made."""
    return [key for key in device_claims(task.pod).values() if key is not None]


def _common(selectors: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """The nodes that all of the selectors, of one term each, select; None: all."""
    terms = [(each.get("nodeSelectorTerms") or [{}])[0] for each in selectors if each is not None]
    if not terms:
        return None
    merged: dict[str, list[Any]] = {}
    for term in terms:
        for kind in ("matchExpressions", "matchFields"):
            known = merged.setdefault(kind, [])
            known += [each for each in term.get(kind) or () if each not in known]
    return {"nodeSelectorTerms": [{kind: each for kind, each in merged.items() if each}]}
