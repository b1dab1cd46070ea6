"""All policies, and their manifests and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyroclast.api.types import ResourceType
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
    version: str = "v1",
) -> list[dict[str, Any]]:
    """Return the ValidatingAdmissionPolicies and their bindings.

    Namespaces in `exempt` are not checked. `job_plugins`: the names of third-party job plugins. `namespace`: the namespace of
    Pyroclast's own programs.
    """
    names = ", ".join(f"'{name}'" for name in schedulers)
    plugins = ", ".join(f'"{name}"' for name in job_plugins)
    objects: list[dict[str, Any]] = []
    for policy in VALIDATING:
        conditions = [(name, expression.replace("SCHEDULERS", names)) for name, expression in policy.conditions]
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": _constraints(policy.resource, policy.operations, exempt),
            **_named("variables", policy.variables),
            **_named("matchConditions", conditions),
            "validations": [_validation(validation, policy, plugins, namespace) for validation in policy.validations],
        }
        objects += with_binding("ValidatingAdmissionPolicy", policy.name, spec, binding=f"{policy.name}-binding", version=version)
    return objects


def mutating_manifests(
    *, scheduler: str = "volcano", exempt: Sequence[str] = (), namespace: str = "volcano-system", version: str = "v1beta1"
) -> list[dict[str, Any]]:
    """Return the MutatingAdmissionPolicies and their bindings.

    Namespaces in `exempt` are not changed. `namespace`: the namespace of Pyroclast's own programs.
    """
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
    complete = expression.replace("SCHEDULER", scheduler).replace(NAMESPACE, namespace)
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": complete}}


def _validation(validation: Validation, policy: ValidatingPolicy, plugins: str, namespace: str) -> dict[str, Any]:
    expression = validation.expression.replace("JOB_PLUGINS", plugins).replace(NAMESPACE, namespace)
    others = [operation for operation in policy.operations if validation.operations and operation not in validation.operations]
    if others:
        elsewhere = " || ".join(f"request.operation == '{operation}'" for operation in others)
        expression = f"{elsewhere} || ({expression})"
    said = {"messageExpression": validation.said.replace("JOB_PLUGINS", plugins)} if validation.said else {}
    return {"expression": expression, "message": validation.message, **said, "reason": "Invalid"}
