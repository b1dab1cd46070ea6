"""Checks the rights of users by SubjectAccessReviews: on the target of a Command, and on the queues that an object names.

The controllers carry Commands out with their own rights, so a user could let them do what the user may not (confused deputy).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from pyroclast.api.types import JOBS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.rules import commands, submitters
from pyroclast.rules.queue_access import MOST_QUEUES
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.access import Remembered, is_allowed
from pyroclast_admission.review import Answer, Review, refusal

SECONDS: Final = 2.0
"""Time limit of the look at the target, in seconds. The API server waits for the review meanwhile."""

RETRY_SECONDS: Final = 1

_KINDS: Final = {"Job": JOBS, "Queue": QUEUES}


class Authorizer:
    """Asks the API server about the target of a Command and the rights of its user. `namespace`: of our own programs."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def refusal(self, review: Review) -> Answer | None:
        """Return the denial of the Command; None when its target exists and the user may update it, or the rules refuse it."""
        if not commands.validate(review.object).allowed:
            return None
        target = mapping(review.object.get("target"))
        kind, name, uid = _KINDS[text(target.get("kind"))], text(target.get("name")), text(target.get("uid"))
        if kind is JOBS and submitters.is_ours(review.user, self._namespace) and review.user.endswith("-jobflow"):
            return None  # the flow of a Job may end it
        key = Key(review.namespace if kind.namespaced else "", name)
        try:
            allowed, why = await asyncio.gather(self._may_update(review, kind, key), self._fault(kind, key, uid))
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

    async def _fault(self, kind: ResourceType, key: Key, uid: str) -> Verdict | None:
        try:
            target = await self._client.get(kind, key, deadline=Deadline.after(SECONDS))
        except NotFound:
            return commands.absent(kind.kind, str(key))
        there = text(mapping(target.get("metadata")).get("uid"))
        return None if there == uid else commands.replaced(kind.kind, str(key), uid, there)


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
        denied = [queue for queue, may in zip(queues, allowed, strict=True) if not may]
        if not denied:
            return None
        name = denied[0]
        more = f" (nor {len(denied) - 1} more of the queues named here)" if len(denied) > 1 else ""
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
