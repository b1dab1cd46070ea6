"""The `authorizer` of an expression: asks whether somebody may do something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

__all__ = ["Authorizer", "Decision"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the server says."""

    is_allowed: bool
    why: str = ""

    cel_type = "kubernetes.authorization.Decision"

    def allowed(self) -> bool:
        """Whether it may be done."""
        return self.is_allowed

    def reason(self) -> str:
        """Why."""
        return self.why

    def errored(self) -> bool:
        """Whether the question could not be answered."""
        return False

    def error(self) -> str:
        """Why it could not."""
        return ""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """A question in the making. `ask` takes the verb and what was said so far: group, resource, name, namespace, …, path.

    `of_request` is the question about the object of the request itself (`authorizer.requestResource`).
    """

    ask: Callable[[str, Mapping[str, str]], Decision]
    said: Mapping[str, str] = field(default_factory=dict)
    of_request: Authorizer | None = None

    cel_type = "kubernetes.authorization.Authorizer"

    def _with(self, **more: str) -> Authorizer:
        return replace(self, said={**self.said, **more})

    def group(self, name: str) -> Authorizer:
        """Of an API group."""
        return self._with(group=name)

    def resource(self, name: str) -> Authorizer:
        """Of a resource, by its plural."""
        return self._with(resource=name)

    def subresource(self, name: str) -> Authorizer:
        """Of a subresource."""
        return self._with(subresource=name)

    def namespace(self, name: str) -> Authorizer:
        """In a namespace."""
        return self._with(namespace=name)

    def name(self, name: str) -> Authorizer:
        """Of one object."""
        return self._with(name=name)

    def path(self, path: str) -> Authorizer:
        """Of a path that is no resource."""
        return self._with(path=path)

    def serviceAccount(self, namespace: str, name: str) -> Authorizer:  # noqa: N802  # the word of the language
        """By a service account instead of the user of the request."""
        return self._with(user=f"system:serviceaccount:{namespace}:{name}")

    def check(self, verb: str) -> Decision:
        """The answer."""
        return self.ask(verb, self.said)
