"""PersistentVolumeClaims: the nodes on which a pod can use them, the volumes that it gets, and the writes before its bind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Key
from pyroclast.resources.quantity import ZERO
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.tasks import Task, TaskFacts, TaskStatus
from pyroclast_scheduler.model.triggers import ClaimRelease, ObjectChange, Pause, Trigger
from pyroclast_scheduler.plugins.predicates.storage import NODE_SELECTED, Storage, is_bound, is_delayed, size_of
from pyroclast_scheduler.session.outcome import Await, Preparation, Write
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_NONE, _NEW = -1, -2  # in place of the index of a volume: no volume; a new volume
_CONFLICT: Final = "node(s) had volume node affinity conflict"
_NOTHING: Final = "node(s) didn't find available persistent volumes to bind"
_NO_ROOM: Final = "node(s) did not have enough free storage"
_VANISHED: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_TAKEN: Final = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"


_UNBOUND: Final = frozenset[Trigger]({
    ClaimRelease(),  # a released pod may have a volume, or room for a new one, that was never used
    ObjectChange(records.PersistentVolume),
    ObjectChange(records.StorageClass),
    ObjectChange(records.CsiDriver),
    ObjectChange(records.CsiStorageCapacity),
})  # fmt: skip
"""The triggers after which an unbound claim may get a volume."""


_SOON: Final = 20.0
"""Seconds until a pod gives its room back if its claim has no volume and nothing shows that the provisioner works."""
_LONGEST: Final = 6  # doublings of the pause until the next attempt: about 20 minutes
_MEMORY: Final = "volumes.unprovided"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A pod got a node at `since` and waited for the volume of a claim. `times`: how often this happened before."""

    since: float
    times: int = 0

    @property
    def next_at(self) -> float:
        """The time of the next attempt."""
        return self.since + _SOON * (1 + (1 << min(self.times, _LONGEST)))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The volume of an unbound claim on node `row`; an empty `volume` stands for a new one."""

    claim: str
    volume: str
    row: int


@dataclass(slots=True)
class _Wishes:
    """The claims of a pod: volumes of bound ones, rows of the nodes to which others are tied, and those still free."""

    volumes: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    delayed: list[records.PersistentVolumeClaim] = field(default_factory=list)


class Volumes:
    """The filter for volumes. `patience`: for how many seconds a pod waits for its volumes after it got a node."""

    def __init__(self, session: PluginSession, *, patience: float) -> None:
        self._session = session
        self._storage = Storage(session)
        self._patience = patience
        self._choices: dict[str, list[_Choice]] = {}
        self._by_claim: dict[str, list[_Choice]] = {}
        self._written: set[str] = set()

    @cached_property
    def _users(self) -> Counter[str]:
        """The number of pods on nodes that use each claim."""
        residents = (each for residents in self._session.snapshot.residents for each in residents if each.shape.has_claims)
        return Counter(claim.key for resident in residents for claim in volume_claims(resident.pod))

    def absent(self, task: TaskFacts) -> str | None:
        """Return why no node is feasible for the pod in any state: a claim is missing or unusable."""
        for claim in volume_claims(task.pod):
            record = self._storage.claims.get(claim.key)
            if record is None:
                own = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim.name}"'
                return own if claim.is_own else f'persistentvolumeclaim "{claim.name}" not found'
            if record.metadata.is_terminating:
                return f'persistentvolumeclaim "{claim.name}" is being deleted'
            if claim.is_own and not any(owner.uid == task.uid for owner in record.metadata.owner_references):
                return f'persistentvolumeclaim "{claim.name}" was not created for the pod (pod is not owner)'
            if record.status.phase == "Lost":
                return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{record.spec.volume_name}"'
            if not is_bound(record) and not is_delayed(record, self._storage.class_of(record)):
                return "pod has unbound immediate PersistentVolumeClaims"
            if (pause := self._pause(record)) is not None:
                provisioner, left = self._storage.unknown_provisioner(record), math.ceil(pause)
                made = f'node(s) got no volume for persistentvolumeclaim "{claim.name}" within {_SOON:g} s'
                return f"{made}; no CSIDriver or volume shows that provisioner {provisioner} works; it is tried again in {left} s"
        return None

    def _pause(self, claim: records.PersistentVolumeClaim) -> float | None:
        """Return the seconds until a pod may wait for the volume of `claim` again; None if it may now."""
        attempts: dict[str, _Attempt] = self._session.ports.memory.get(_MEMORY, {})
        attempt, now = attempts.get(claim.metadata.uid), self._session.ports.now
        if attempt is None or is_bound(claim) or not attempt.since + _SOON <= now < attempt.next_at:
            return None
        return attempt.next_at - now if self._storage.unknown_provisioner(claim) else None

    def _patience_for(self, claim: records.PersistentVolumeClaim) -> float:
        """Return for how many seconds a pod keeps its room while it waits for the volume of `claim`."""
        is_made = not claim.spec.volume_name and all(not each.volume for each in self._by_claim.get(str(claim.key), ()))
        if not is_made or not self._storage.unknown_provisioner(claim):
            return self._patience
        attempts: dict[str, _Attempt] = self._session.ports.memory.setdefault(_MEMORY, {})
        known = {each.metadata.uid for each in self._storage.claims.values() if not is_bound(each)}
        for uid in attempts.keys() - known:
            del attempts[uid]
        last, now = attempts.get(claim.metadata.uid), self._session.ports.now
        if last is None or now >= last.next_at:
            attempts[claim.metadata.uid] = _Attempt(now, 0 if last is None else last.times + 1)
        return min(self._patience, _SOON)

    def refusals(self, task: TaskFacts) -> list[Refusal]:
        """Return the nodes on which the pod cannot get its volumes."""
        storage = self._storage
        wishes = self._wishes(task)
        lacking = [name for name in wishes.volumes if name not in storage.volumes]
        if lacking:
            return [Refusal(storage.mask(None), _VANISHED, Code.UNRESOLVABLE)]
        conflict = storage.mask(np.zeros(0, dtype=np.intp))
        for name in wishes.volumes:
            rows = storage.reach(storage.volumes[name])
            if rows is not None:
                conflict |= ~storage.mask(rows)
        found = [Refusal(conflict, _CONFLICT, Code.UNRESOLVABLE)]
        if wishes.rows:
            tied = np.logical_and.reduce([np.arange(storage.node_count) == row for row in wishes.rows])
            found.append(Refusal(~tied, _NOTHING, Code.UNRESOLVABLE))
        if wishes.delayed:
            chosen, cramped = self._distributed(wishes.delayed)
            missing = np.logical_or.reduce([each == _NONE for _, _, each in chosen])
            found.append(Refusal(missing & ~cramped, _NOTHING, Code.UNRESOLVABLE))
            found.append(Refusal(cramped, _NO_ROOM, Code.UNRESOLVABLE))
        return found

    def in_use(self, task: TaskFacts) -> Refusal | None:
        """Return a refusal of all nodes if another pod uses a ReadWriteOncePod claim of this pod; None otherwise."""
        single = [claim.key for claim in volume_claims(task.pod) if self._is_single(claim.key)]
        return Refusal(self._storage.mask(None), _TAKEN) if any(self._users[key] > 0 for key in single) else None

    def elsewhere(self, task: TaskFacts) -> Bools | None:
        """Return the nodes in other zones than the pod's volumes; None if no volume has a zone."""
        found: Bools | None = None
        for claim in volume_claims(task.pod):
            record = self._storage.claims.get(claim.key)
            volume = None if record is None else self._storage.volumes.get(record.spec.volume_name)
            refused = None if volume is None else self._storage.elsewhere(volume)
            if refused is not None:
                found = refused if found is None else found | refused
        return found

    def retry_when(self, task: TaskFacts) -> set[Trigger]:
        """Return the triggers, besides changes of the nodes, that may change the nodes on which the pod can use its claims."""
        found: set[Trigger] = set()
        for claim in volume_claims(task.pod):
            found.add(ObjectChange(records.PersistentVolumeClaim, claim.key))
            record = self._storage.claims.get(claim.key)
            if record is None:
                continue
            if self._is_single(claim.key):
                found.add(ClaimRelease())
            if is_bound(record):
                found.add(ObjectChange(records.PersistentVolume, record.spec.volume_name))
            else:
                found |= _UNBOUND
                if (pause := self._pause(record)) is not None:
                    found |= {Pause(math.ceil(pause)), ObjectChange(records.CsiNode)}
        return found

    def moved(self, move: Move, sign: int) -> None:
        """Reserve the volumes of placed pods, or free them when the placement is undone."""
        if not move.plan.shape.has_claims:
            return
        change = -sign if move.status is TaskStatus.RELEASING else sign
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            for claim in volume_claims(task.facts.pod):
                self._users[claim.key] += change
            if move.status is not TaskStatus.RELEASING and sign > 0:
                self._keep(task.facts, row)
            elif move.status is not TaskStatus.RELEASING:
                for choice in self._choices.pop(task.uid, ()):
                    self._by_claim[choice.claim].remove(choice)

    def pre_bind(self, task: Task, row: int) -> Preparation | None:
        """Return the writes for the claims of a pod before its bind to `row`, and the conditions to wait for."""
        node = self._session.names[row]
        writes: list[Write] = []
        for choice in self._choices.get(task.uid, ()):
            if choice.claim not in self._written:
                self._written.add(choice.claim)
                writes += self._writes(self._storage.claims[choice.claim], choice, node)
        claims = (self._storage.claims.get(claim.key) for claim in volume_claims(task.facts.pod))
        awaits = tuple(
            Await(type(claim), str(claim.key), _Binding(claim.metadata.uid, claim.metadata.name, node), self._patience_for(claim))
            for claim in claims
            if claim is not None and not is_bound(claim)
        )
        return Preparation(writes=tuple(writes), awaits=awaits) if awaits else None

    def _wishes(self, task: TaskFacts) -> _Wishes:
        wishes = _Wishes()
        for claim in volume_claims(task.pod):
            record, chosen = self._storage.claims.get(claim.key), self._by_claim.get(claim.key)
            if record is None:
                continue
            if is_bound(record):
                wishes.volumes.append(record.spec.volume_name)
            elif chosen and chosen[0].volume:
                wishes.volumes.append(chosen[0].volume)
            elif chosen:
                wishes.rows.append(chosen[0].row)
            elif NODE_SELECTED in record.metadata.annotations:
                wishes.rows.append(self._session.snapshot.rows.get(record.metadata.annotations[NODE_SELECTED], _NONE))
            else:
                wishes.delayed.append(record)
        return wishes

    def _distributed(
        self, claims: Sequence[records.PersistentVolumeClaim]
    ) -> tuple[list[tuple[records.PersistentVolumeClaim, Sequence[str], Ints]], Bools]:
        """Return for each claim, smallest first, its candidates and the index of its volume on each node.

        On one node, no volume is used for two of the claims. The second value is a mask of the nodes that lack room for a new
        volume.
        """
        storage = self._storage
        taken = {choice.volume for choices in self._by_claim.values() for choice in choices}
        done: list[tuple[records.PersistentVolumeClaim, Sequence[str], Ints]] = []
        cramped = storage.mask(np.zeros(0, dtype=np.intp))
        given: dict[str, Bools] = {}
        for claim in sorted(claims, key=_size_rank):
            names: list[str] = []
            chosen: Ints = np.full(storage.node_count, _NONE, dtype=np.int64)
            left = storage.node_count
            for volume in storage.candidates(claim):
                name = volume.metadata.name
                if not left:
                    break
                if name in taken:
                    continue
                rows = storage.reach(volume)
                reached: Any = np.arange(storage.node_count) if rows is None else rows
                is_free = chosen[reached] == _NONE
                if name in given:
                    is_free &= ~given[name][reached]
                if is_free.any():
                    hit = reached[is_free]
                    chosen[hit] = len(names)
                    names.append(name)
                    given[name] = given.get(name, storage.mask(np.zeros(0, dtype=np.intp))) | storage.mask(hit)
                    left -= len(hit)
            makes = storage.provisionable(claim)
            if makes is not None and left:
                roomy = storage.roomy(claim)
                lacks = chosen == _NONE
                chosen[lacks & makes & roomy] = _NEW
                cramped |= lacks & makes & ~roomy
            done.append((claim, names, chosen))
        return done, cramped

    def _keep(self, task: TaskFacts, row: int) -> None:
        earlier = (self._by_claim.get(each.key) for each in volume_claims(task.pod))
        choices = [replace(known[0], row=row) for known in earlier if known]
        for claim, names, chosen in self._distributed(self._wishes(task).delayed)[0]:
            at = int(chosen[row])
            choices.append(_Choice(str(claim.key), names[at] if at >= 0 else "", row))
        self._choices[task.uid] = choices
        for choice in choices:
            self._by_claim.setdefault(choice.claim, []).append(choice)

    def _writes(self, claim: records.PersistentVolumeClaim, choice: _Choice, node: str) -> list[Write]:
        if not choice.volume:
            patch: Mapping[str, Any] = {"metadata": {"uid": claim.metadata.uid, "annotations": {NODE_SELECTED: node}}}
            return [Write(PERSISTENT_VOLUME_CLAIMS, claim.key, patch, record=records.PersistentVolumeClaim)]
        volume = self._storage.volumes[choice.volume]
        if volume.spec.claim_ref is not None and volume.spec.claim_ref.uid:
            return []
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        metadata: dict[str, Any] = {"uid": volume.metadata.uid, "resourceVersion": volume.metadata.resource_version}
        if volume.spec.claim_ref is None:
            metadata["annotations"] = {_BY_CONTROLLER: "yes"}
        patch = {"metadata": metadata, "spec": {"claimRef": reference}}
        return [Write(PERSISTENT_VOLUMES, Key("", choice.volume), patch, record=records.PersistentVolume)]

    def _is_single(self, key: str) -> bool:
        claim = self._storage.claims.get(key)
        return claim is not None and "ReadWriteOncePod" in claim.spec.access_modes


def _size_rank(claim: records.PersistentVolumeClaim) -> tuple[int, str]:
    return (size_of((claim.spec.resources or {}).get("requests")) or ZERO).nanos, claim.metadata.name


@dataclass(slots=True)
class _Binding:
    """The condition that a claim is bound. Without the annotation with its node, no volume can be provisioned there any more."""

    uid: str
    name: str
    node: str
    was_tied: bool = False

    def __call__(self, found: records.PersistentVolumeClaim | None) -> bool | str:
        if found is None or found.metadata.uid != self.uid:
            return f'persistentvolumeclaim "{self.name}" is gone'
        if is_bound(found):
            return True
        chosen = found.metadata.annotations.get(NODE_SELECTED)
        if (chosen is None and self.was_tied) or (chosen is not None and chosen != self.node):
            return f'the provisioner of persistentvolumeclaim "{self.name}" gave up on node {self.node}'
        self.was_tied = chosen is not None
        return False
