"""The chain of admission steps between a decoded request and the store.

A mutating step may change the object. A validating step may only reject it. Guards run last and without waiting, so that the
numbers they check cannot change before the commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Context
from pyroclast_standalone.apiserver.storage.registry import Resource


class Review(msgspec.Struct):
    """One write under review: the new object `body`, None for a deletion, and `old`, None for a creation."""

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
    kind: tuple[str, str, str] | None = None  # if the body has another kind than the resource: Scale, Binding, Eviction
    # returns the form of the object that is reviewed, such as its Scale
    show: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def refusal(self, why: str, *, causes: Iterable[status.Cause] = ()) -> status.StatusError:
        """Return a 403 error with the message of a plugin."""
        return status.forbidden(self.resource.group, self.resource.plural, self.name, why, causes=causes)


Step: TypeAlias = Callable[[Review], Awaitable[None]]
Guard: TypeAlias = Callable[[Review], None]


class Admission:
    """The admission steps of a write, in order. A step raises a StatusError to reject the write."""

    def __init__(self) -> None:
        self.early: list[Guard] = []  # built-in mutation: fast and without waiting
        self.mutating: list[Step] = []
        self.validating: list[Step] = []
        self.guards: list[Guard] = []

    async def mutate(self, review: Review) -> None:
        """Run every mutating admission step."""
        for change in self.early:
            change(review)
        for step in self.mutating:
            await step(review)

    async def validate(self, review: Review) -> None:
        """Run every validating admission step."""
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
        """Review a `body` that was posted to a subresource.

        The kind of `body` differs from `resource`. The name of `body` is the name of the object with the subresource.
        """
        name, options = body["metadata"]["name"], context.write_options("CreateOptions")
        namespace = context.info.namespace
        review = Review("CREATE", resource, subresource, namespace, name, body, None, context, dry_run, options, kind)
        await self.mutate(review)
        await self.validate(review)
        return review

    def guard(self, review: Review) -> None:
        """Run the last checks of a write, directly before its commit."""
        for check in self.guards:
            check(review)
