"""What an admission policy is made of."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.types import ResourceType

__all__ = ["MutatingPolicy", "Mutation", "ValidatingPolicy", "Validation"]


@dataclass(frozen=True, slots=True)
class Validation:
    """One check. `expression` must be true; `message` is the message when it is not, or what `said` (CEL) gives.

    `rule` tells in words what is checked, for the documentation; `operations` are those it is for, all when empty.
    """

    rule: str
    expression: str
    message: str
    said: str = ""
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidatingPolicy:
    """A set of checks of one kind. `variables` are names and expressions, each of which may use those before it."""

    name: str
    resource: ResourceType
    operations: tuple[str, ...]
    validations: tuple[Validation, ...]
    variables: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Mutation:
    """One default: `expression` (CEL) gives a list of JSON patch operations. `rule` tells in words what it sets."""

    rule: str
    expression: str


@dataclass(frozen=True, slots=True)
class MutatingPolicy:
    """A set of defaults of one kind."""

    name: str
    binding: str
    resource: ResourceType
    mutations: tuple[Mutation, ...]
    conditions: tuple[tuple[str, str], ...] = ()
