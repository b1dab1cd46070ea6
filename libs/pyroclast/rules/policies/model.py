"""The parts of an admission policy, and small CEL expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyroclast.api.types import ResourceType

GROUP = "admissionregistration.k8s.io"
ONE_TIER = (
    "!(has({0}.networkTopology) && has({0}.networkTopology.highestTierAllowed) && "
    "{0}.networkTopology.?highestTierName.orValue('') != '')"
)
"""Whether the topology of `{0}` gives its limit once."""


def listed(names: Iterable[str]) -> str:
    """Return a list of strings."""
    quoted = (f"'{name}'" for name in names)
    return f"[{', '.join(quoted)}]"


def matches(value: str, pattern: str) -> str:
    """Return whether `value` (an expression) matches the whole `pattern`."""
    return f"{value}.matches('^{pattern}$')"


def is_whole(value: str) -> str:
    """Return whether the quantity `value` (an expression) is a whole number; `isInteger` would refuse `2000m`."""
    number = f"quantity(string({value})).asApproximateFloat()"
    return f"{number} == double(int({number}))"


def when(condition: str, path: str, value: str) -> str:
    """Return the operation that adds `value` at `path` when `condition` holds (all in CEL)."""
    return f'{condition} ? [JSONPatch{{op: "add", path: "{path}", value: {value}}}] : []'


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


def rule_for(resource: ResourceType, operations: Sequence[str], version: str = "*") -> dict[str, Any]:
    """Return the match constraint for operations on a kind."""
    kind = {"apiGroups": [resource.group], "apiVersions": [version], "resources": [resource.plural]}
    return {**kind, "operations": list(operations)}


def with_binding(kind: str, name: str, spec: dict[str, Any], *, binding: str = "", version: str = "v1") -> list[dict[str, Any]]:
    """Return the manifests of a policy and of its binding, which has the name of the policy by default."""
    bound: dict[str, Any] = {"policyName": name}
    if kind.startswith("Validating"):
        bound["validationActions"] = ["Deny"]
    return [
        {"apiVersion": f"{GROUP}/{version}", "kind": each, "metadata": {"name": own}, "spec": body}
        for each, own, body in ((kind, name, spec), (f"{kind}Binding", binding or name, bound))
    ]
