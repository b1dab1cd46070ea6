"""All policies, and their manifests and bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.types import ResourceType
from pyroclast.rules.lookups import MOST_PODS
from pyroclast.rules.policies.jobs import JOB_DEFAULTS, JOB_POLICY
from pyroclast.rules.policies.model import MutatingPolicy, ValidatingPolicy, Validation, rule_for, with_binding
from pyroclast.rules.policies.others import OTHER_DEFAULTS, OTHER_POLICIES
from pyroclast.rules.policies.submitters import NAMESPACE
from pyroclast.rules.policies.switched import COMMANDS_MARKED

VALIDATING: Final[tuple[ValidatingPolicy, ...]] = (JOB_POLICY, *OTHER_POLICIES)
MUTATING: Final[tuple[MutatingPolicy, ...]] = (JOB_DEFAULTS, *OTHER_DEFAULTS, COMMANDS_MARKED)


def validating_manifests(
    *,
    schedulers: Sequence[str] = ("volcano",),
    job_plugins: Sequence[str] = (),
    exempt: Sequence[str] = (),
    namespace: str = "volcano-system",
    max_pods: str = str(MOST_PODS),
    allows_placement: str = "false",
) -> list[dict[str, Any]]:
    """Return the ValidatingAdmissionPolicies and their bindings, which do not check the namespaces in `exempt`.

    `job_plugins`: third-party ones. `namespace`: that of our programs. `max_pods`, `allows_placement`: CEL for limits of Jobs.
    """
    names = ", ".join(f"'{name}'" for name in schedulers)
    values = {
        "SCHEDULERS": names,
        "JOB_PLUGINS": ", ".join(f'"{name}"' for name in job_plugins),
        "MAX_PODS": max_pods,
        "ALLOWS_PLACEMENT": allows_placement,
        NAMESPACE: namespace,
    }
    objects: list[dict[str, Any]] = []
    for policy in VALIDATING:
        conditions = [(name, _complete(expression, values)) for name, expression in policy.conditions]
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": _constraints(policy.resource, policy.operations, exempt),
            **_named("variables", policy.variables),
            **_named("matchConditions", conditions),
            "validations": [_validation(validation, policy, values) for validation in policy.validations],
        }
        objects += with_binding("ValidatingAdmissionPolicy", policy.name, spec, binding=f"{policy.name}-binding", version="v1")
    return objects


def mutating_manifests(
    *, scheduler: str = "volcano", exempt: Sequence[str] = (), namespace: str = "volcano-system", version: str = "v1beta1"
) -> list[dict[str, Any]]:
    """Return the MutatingAdmissionPolicies and their bindings, which change nothing in the namespaces in `exempt`."""
    objects: list[dict[str, Any]] = []
    for policy in MUTATING:
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": _constraints(policy.resource, ("CREATE",), exempt),
            **_named("matchConditions", policy.conditions),
            "mutations": [_mutation(mutation.expression, scheduler, namespace) for mutation in policy.mutations],
        }
        objects += with_binding("MutatingAdmissionPolicy", policy.name, spec, binding=policy.binding, version=version)
    return objects


def _constraints(resource: ResourceType, operations: Sequence[str], exempt: Sequence[str]) -> dict[str, Any]:
    constraints: dict[str, Any] = {"resourceRules": [rule_for(resource, operations, resource.version)]}
    if resource.namespaced and exempt:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)}
        constraints["namespaceSelector"] = {"matchExpressions": [expression]}
    return constraints


def _named(key: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {key: [{"name": name, "expression": expression} for name, expression in pairs]} if pairs else {}


def _mutation(expression: str, scheduler: str, namespace: str) -> dict[str, Any]:
    complete = _complete(expression, {"SCHEDULER": scheduler, NAMESPACE: namespace})
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": complete}}


def _complete(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with values in place of the placeholders, which are words in capital letters."""
    return re.sub(rf"\b({'|'.join(values)})\b", lambda match: values[match[1]], text)


def _validation(validation: Validation, policy: ValidatingPolicy, values: Mapping[str, str]) -> dict[str, Any]:
    expression = _complete(validation.expression, values)
    others = [operation for operation in policy.operations if validation.operations and operation not in validation.operations]
    if others:
        elsewhere = " || ".join(f"request.operation == '{operation}'" for operation in others)
        expression = f"{elsewhere} || ({expression})"
    said = {"messageExpression": _complete(validation.said, values)} if validation.said else {}
    return {"expression": expression, "message": _complete(validation.message, values), **said, "reason": "Invalid"}
