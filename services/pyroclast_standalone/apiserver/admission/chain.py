"""What stands between a decoded request and the store: the chain of admission steps.

A mutating step may change the object, a validating one only refuse; guards run at the very end, without waiting, so that
what they count cannot change before the commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Context
from pyroclast_standalone.apiserver.storage.registry import Resource

__all__ = ["Admission", "Guard", "Review", "Step"]


class Review(msgspec.Struct):
    """One write under review. `body` is the new object, None for a deletion; `old` is the one before, None for a creation."""

    operation: str  # CREATE, UPDATE, DELETE, CONNECT
    resource: Resource
    subresource: str
    namespace: str
    name: str
    body: dict[str, Any] | None
    old: dict[str, Any] | None
    context: Context
    dry_run: bool = False
    options: dict[str, Any] = {}
    kind: tuple[str, str, str] | None = None  # when the body is of another kind than the resource: Scale, Binding, Eviction
    show: Callable[[dict[str, Any]], dict[str, Any]] | None = None  # makes of the object what is reviewed instead: its Scale

    def refusal(self, why: str, *, causes: Iterable[status.Cause] = ()) -> status.StatusError:
        """403 with the words of a plugin."""
        return status.forbidden(self.resource.group, self.resource.plural, self.name, why, causes=causes)


Step: TypeAlias = Callable[[Review], Awaitable[None]]
Guard: TypeAlias = Callable[[Review], None]


class Admission:
    """The steps, in order. Each raises a StatusError to refuse."""

    def __init__(self) -> None:
        self.early: list[Guard] = []  # built-in mutation: cheap, without waiting
        self.mutating: list[Step] = []
        self.validating: list[Step] = []
        self.guards: list[Guard] = []

    async def mutate(self, review: Review) -> None:
        """Let every mutating step have its say."""
        for change in self.early:
            change(review)
        for step in self.mutating:
            await step(review)

    async def validate(self, review: Review) -> None:
        """Let every validating step have its say."""
        for step in self.validating:
            await step(review)

    async def admit_posted(
        self,
        context: Context,
        resource: Resource,
        subresource: str,
        body: dict[str, Any],
        *,
        kind: tuple[str, str, str],
        dry_run: bool,
    ) -> Review:
        """The review of `body`, of another kind than `resource` and with the name of the object, posted to one's subresource."""
        name, options = body["metadata"]["name"], context.write_options("CreateOptions")
        namespace = context.info.namespace
        review = Review("CREATE", resource, subresource, namespace, name, body, None, context, dry_run, options, kind)
        await self.mutate(review)
        await self.validate(review)
        return review

    def guard(self, review: Review) -> None:
        """The last checks before the commit."""
        for check in self.guards:
            check(review)
