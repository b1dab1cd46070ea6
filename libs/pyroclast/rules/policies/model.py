"""The parts of an admission policy."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.types import ResourceType


@dataclass(frozen=True, slots=True)
class Validation:
    """One check. `expression` must be true; otherwise the message is `message`, or the value of `said` (CEL) if that is set.

    `rule`: the text of the rule for the documentation. `operations`: the operations to check; all operations when empty.
    """

    rule: str
    expression: str
    message: str
    said: str = ""
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidatingPolicy:
    """The checks of one kind. `variables` are names and expressions; each expression may use the variables before it."""

    name: str
    resource: ResourceType
    operations: tuple[str, ...]
    validations: tuple[Validation, ...]
    variables: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Mutation:
    """One default. `expression` (CEL) returns a list of JSON patch operations; `rule` is its text for the documentation."""

    rule: str
    expression: str


@dataclass(frozen=True, slots=True)
class MutatingPolicy:
    """The defaults of one kind."""

    name: str
    binding: str
    resource: ResourceType
    mutations: tuple[Mutation, ...]
    conditions: tuple[tuple[str, str], ...] = ()
