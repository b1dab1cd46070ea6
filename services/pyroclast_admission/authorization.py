"""Checks what only the API server knows: the rights on the target of a Command and on the queues of an object, and owners.

The controllers carry Commands out with their own rights, so a user could let them do what the user may not (confused deputy).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from pyroclast.api.types import COMMANDS, CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOBS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import found
from pyroclast.rules import commands, submitters
from pyroclast.rules.queue_access import MOST_QUEUES
from pyroclast.rules.values import items, mapping, text
from pyroclast.rules.verdicts import Verdict, denied
from pyroclast.runtime.access import Remembered, is_allowed
from pyroclast_admission.review import Answer, Review, refusal

SECONDS: Final = 2.0
"""Time limit of the look at the target, in seconds. The API server waits for the review meanwhile."""

RETRY_SECONDS: Final = 1

OWNER_SECONDS: Final = 60.0
"""Seconds for which an owner that exists is not looked up again. The garbage collector deletes what outlives its owner."""

_OWNERS: Final = {kind.kind: kind for kind in (JOBS, CRON_JOBS, HYPER_JOBS, JOB_FLOWS)}
_KINDS: Final = {"Job": JOBS, "Queue": QUEUES}


class Authorizer:
    """Asks the API server about the target of a Command and the rights of its user, and about the owner of a Job or pod.

    `namespace`: of our own programs.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._owners = Remembered(OWNER_SECONDS)

    async def refusal(self, review: Review) -> Answer | None:
        """Return the denial of a new Command, or of a Job or pod that a controller creates for an owner; None when it may be.

        A Command needs a target that exists and that the user may update; the rules refuse one without a target.
        """
        if review.kind != COMMANDS.kind:
            return await self._ownerless(review)
        if not commands.validate(review.object).allowed:
            return None
        target = mapping(review.object.get("target"))
        kind, name, uid = _KINDS[text(target.get("kind"))], text(target.get("name")), text(target.get("uid"))
        key = Key(review.namespace if kind.namespaced else "", name)
        is_flow = kind is JOBS and submitters.is_ours(review.user, self._namespace) and review.user.endswith("-jobflow")
        try:  # the flow of a Job may end it
            allowed, why = await asyncio.gather(
                _true() if is_flow else self._may_update(review, kind, key), self._fault(kind, key, uid, of_flow=is_flow)
            )
        except KubeError as error:
            message = f"{kind.kind} {key} and the rights of the user cannot be looked up now, try again: {error}"
            return refusal(message, code=503, reason="ServiceUnavailable", retry_after_seconds=RETRY_SECONDS)
        if not allowed:
            where = f' in the namespace "{key.namespace}"' if key.namespace else ""
            message = (
                f'user "{review.user}" may not update {kind.qualified} "{name}"{where}: '
                f"a Command needs the verb update on its target, as a Role or ClusterRole grants it"
            )
            return refusal(message, code=403, reason="Forbidden")
        return Answer(why) if why is not None else None

    async def _may_update(self, review: Review, kind: ResourceType, key: Key) -> bool:
        what = {"group": kind.group, "version": kind.version, "resource": kind.plural, "name": key.name, "verb": "update"}
        if key.namespace:
            what["namespace"] = key.namespace
        return await is_allowed(self._client, review.user_info, {"resourceAttributes": what})

    async def _ownerless(self, review: Review) -> Answer | None:
        """Return the denial of an object whose owner does not exist in its namespace, so that it would be made for nobody."""
        owner = next((each for each in _owners(review.object) if each.get("controller") is True), None)
        kind = _OWNERS.get(text(owner.get("kind"))) if owner else None
        if owner is None or kind is None:
            return None  # the policies of accounts say which kinds may own it
        key, uid = Key(review.namespace, text(owner.get("name"))), text(owner.get("uid"))
        if self._owners.get((kind, key, uid)):
            return None
        try:
            there = await found(self._client.get(kind, key, deadline=Deadline.after(SECONDS))) or {}
        except KubeError as error:
            message = f"{kind.kind} {key} cannot be looked up now, try again: {error}"
            return refusal(message, code=503, reason="ServiceUnavailable", retry_after_seconds=RETRY_SECONDS)
        if text(mapping(there.get("metadata")).get("uid")) != uid:
            message = f"metadata.ownerReferences: there is no {kind.kind} {key} with the uid {uid}"
            return refusal(message, code=403, reason="Forbidden")
        self._owners.put((kind, key, uid), answer=True)
        return None

    async def _fault(self, kind: ResourceType, key: Key, uid: str, *, of_flow: bool) -> Verdict | None:
        target = await found(self._client.get(kind, key, deadline=Deadline.after(SECONDS)))
        if target is None:
            return commands.absent(kind.kind, str(key))
        there = text(mapping(target.get("metadata")).get("uid"))
        if there != uid:
            return commands.replaced(kind.kind, str(key), uid, there)
        if of_flow and not any(each.get("kind") == JOB_FLOWS.kind for each in _owners(target)):
            return denied(f"target.name: Forbidden: the Job {key} belongs to no JobFlow")
        return None


async def _true() -> bool:
    return True


def _owners(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(each) for each in items(mapping(body.get("metadata")).get("ownerReferences"))]


USE_SECONDS: Final = 5.0
"""Time in seconds for which the answer for one user and queue is used again."""


class QueueUse:
    """Asks the API server whether a user has the verb `use` on a queue."""

    def __init__(self, client: Client) -> None:
        self._client, self._answers = client, Remembered(USE_SECONDS)
        self._asked: dict[object, asyncio.Event] = {}

    async def refusal(self, review: Review, queues: Sequence[str]) -> Answer | None:
        """Return the denial of a request by a user who may not use all these queues; None when the user may."""
        if len(queues) > MOST_QUEUES:
            message = f"{len(queues)} queues are named here; where their use is checked, one object may name {MOST_QUEUES}"
            return refusal(message, code=403, reason="Forbidden")
        try:
            allowed = await asyncio.gather(*(self._may_use(review.user_info, queue) for queue in queues))
        except KubeError as error:
            message = f"the rights on queue {queues[0]} cannot be looked up now, try again: {error}"
            return refusal(message, code=503, reason="ServiceUnavailable", retry_after_seconds=RETRY_SECONDS)
        forbidden = [queue for queue, may in zip(queues, allowed, strict=True) if not may]
        if not forbidden:
            return None
        name = forbidden[0]
        more = f" (nor {len(forbidden) - 1} more of the queues named here)" if len(forbidden) > 1 else ""
        rule = f"{{apiGroups: [{QUEUES.group}], resources: [{QUEUES.plural}], resourceNames: [{name}], verbs: [use]}}"
        message = (
            f'user "{review.user}" may not use {QUEUES.qualified} "{name}"{more}: a ClusterRole with the rule {rule} allows it, '
            f"bound by a ClusterRoleBinding to the user or to a group of the user"
        )
        return refusal(message, code=403, reason="Forbidden")

    async def _may_use(self, user: Mapping[str, Any], queue: str) -> bool:
        """Return the remembered answer. Requests that need the same answer at the same time ask once."""
        who = {name: user.get(name) for name in ("username", "uid", "groups", "extra")}
        question = orjson.dumps([who, queue], option=orjson.OPT_SORT_KEYS)
        while (known := self._answers.get(question)) is None:
            if (asked := self._asked.get(question)) is not None:
                await asked.wait()
                continue
            self._asked[question] = asked = asyncio.Event()
            what = {"group": QUEUES.group, "version": QUEUES.version, "resource": QUEUES.plural, "name": queue, "verb": "use"}
            try:
                self._answers.put(question, await is_allowed(self._client, user, {"resourceAttributes": what}))
            finally:
                del self._asked[question]
                asked.set()
        return bool(known)
