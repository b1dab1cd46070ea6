"""Admission webhooks. Mutating webhooks run one after another, validating webhooks run in parallel.

A mutating webhook runs a second time if a later one changed the object and its `reinvocationPolicy` allows that.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

import orjson

from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.admission.hook_client import CallFailed, HookClient, Response, Seen, shown, variables_of
from pyroclast_standalone.apiserver.admission.hooks import Hook, Hooks, Matched
from pyroclast_standalone.apiserver.documents import json_patch
from pyroclast_standalone.apiserver.documents.conditions import ConditionError
from pyroclast_standalone.apiserver.documents.errors import DocumentError
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import Store

_log = logging.getLogger(__name__)


class Webhooks:
    """The admission steps that call webhooks."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._mutating = Hooks(store, registry, "mutating")
        self._validating = Hooks(store, registry, "validating")
        self._client = HookClient(store)

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        await self._client.close()

    async def mutate(self, review: Review) -> None:
        """Call every matching mutating webhook."""
        overtaken: list[Matched] = []
        called: list[Matched] = []
        for matched in self._mutating.matching(review):
            if not self._is_wanted(matched, review):
                continue
            if await self._mutate_by(matched, review):
                overtaken += [each for each in called if each.hook.reinvoked and each not in overtaken]
            called.append(matched)
        for matched in overtaken:
            if self._is_wanted(matched, review):
                await self._mutate_by(matched, review)

    async def validate(self, review: Review) -> None:
        """Call every matching validating webhook."""
        hooks = [each for each in self._validating.matching(review) if self._is_wanted(each, review)]
        results = await asyncio.gather(*(self._validate_by(each, review) for each in hooks), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _is_wanted(self, matched: Matched, review: Review) -> bool:
        """Return whether the match conditions are true. Raise an error if the webhook does not support a dry run."""
        hook = matched.hook
        if hook.conditions is not None:
            try:
                if not hook.conditions.hold(variables_of(review, matched.resource)):
                    return False
            except ConditionError as error:
                if not hook.is_strict:
                    return False
                resource = review.resource
                raise status.forbidden(resource.group, resource.plural, review.name, str(error)) from None
        if review.dry_run and not hook.dry_run:
            raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        return True

    async def _mutate_by(self, matched: Matched, review: Review) -> bool:
        """Call one mutating webhook. Return whether it changed the object."""
        resource, seen = review.resource, self._seen(matched, review, is_raw=True)
        response = await self._call(matched, review, seen, mutating=True)
        patch = response.get("patch") if response is not None else None
        if not patch:
            return False
        if seen[0] is None:
            what = "attempted to modify the object, which is not supported for this operation"
            raise status.internal(f'admission webhook "{matched.hook.name}" {what}')
        patched = _patched(matched.hook, seen[0], patch)
        if patched == seen[0] or review.show is not None:
            return False
        document = matched.resource.seen_as(orjson.loads(orjson.dumps(patched)), resource)
        if not resource.is_custom:
            try:
                resource.strategy.decode(document)
            except DocumentError as error:
                raise status.internal(error.message) from None
        resource.strategy.default(document)
        review.body = document
        return True

    def _seen(self, matched: Matched, review: Review, *, is_raw: bool = False) -> Seen:
        """Return the new and the old object in the version for the webhook."""
        return shown(review, review.body, matched.resource, is_raw=is_raw), shown(review, review.old, matched.resource)

    async def _validate_by(self, matched: Matched, review: Review) -> None:
        await self._call(matched, review, self._seen(matched, review), mutating=False)

    async def _call(self, matched: Matched, review: Review, seen: Seen, *, mutating: bool) -> Response | None:
        """Return the response of a webhook that allows the write. None when it failed with failure policy Ignore."""
        hook = matched.hook
        try:
            response = await self._client.call(matched, review, seen, mutating=mutating)
        except CallFailed as error:
            if hook.is_strict:
                raise status.internal(str(error)) from error
            _log.warning("webhook.failed_open: hook=%s error=%s", hook.name, error)
            return None
        for warning in response.get("warnings") or ():
            review.context.warn(str(warning))
        for name, value in (response.get("auditAnnotations") or {}).items():
            review.context.annotations[f"{hook.name}/{name}"] = str(value)
        if not response.get("allowed"):
            raise status.admission_denied(hook.name, response.get("status") or {})
        return response


def _patched(hook: Hook, body: dict[str, Any], patch: object) -> dict[str, Any]:
    try:
        operations = json_patch.check(orjson.loads(base64.b64decode(str(patch))))
        result = json_patch.apply(body, operations)
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise status.internal(f"unable to decode patch of webhook {hook.name}: {error}") from None
    except DocumentError:
        raise status.internal(_misfit(body, operations)) from None
    if not isinstance(result, dict):
        raise status.internal(f"the patch of webhook {hook.name} leaves no object")
    return result


def _misfit(body: dict[str, Any], operations: list[Mapping[str, Any]]) -> str:
    """Return the error message of the patch operation that does not apply."""
    document: Any = body
    for operation in operations:
        try:
            document = json_patch.apply(document, [operation])
        except DocumentError:
            name, path = operation.get("op"), operation.get("path")
            if name == "test":
                return f"testing value {path} failed: test failed"
            return f'{name} operation does not apply: doc is missing path: "{path}": missing value'
    return "the patch does not apply"
