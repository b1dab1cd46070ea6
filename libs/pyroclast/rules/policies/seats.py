"""The policy that lets only the controllers and the scheduler write the annotations of seats and placements.

A forged placement would over-commit nodes.
"""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import POD_GROUPS

_NEW: Final = "object.metadata.?annotations[?k]"
_CHANGED: Final = (
    f"['{keys.SEATS}', '{keys.PLACEMENT}'].exists(k, request.operation == 'CREATE' ? {_NEW}.hasValue() "
    f": {_NEW} != oldObject.metadata.?annotations[?k])"
)
_MESSAGE: Final = (
    f"metadata.annotations[{keys.SEATS}], metadata.annotations[{keys.PLACEMENT}]: Forbidden: "
    "the job controller and the scheduler write them; leave them as they are"
)


def seats_manifests(*, namespace: str, release: str) -> list[dict[str, Any]]:
    """Return the policy and its binding. Pyroclast's ServiceAccounts are in `namespace`; their names begin with `release`."""
    accounts = ", ".join(f"'system:serviceaccount:{namespace}:{release}-{name}'" for name in ("controllers", "scheduler"))
    rule = {
        "apiGroups": [POD_GROUPS.group],
        "apiVersions": ["*"],
        "resources": [POD_GROUPS.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    name = f"{release}-seats"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "not-ours", "expression": f"!(request.userInfo.username in [{accounts}])"},
            {"name": "changed", "expression": _CHANGED},
        ],
        "validations": [{"expression": "false", "message": _MESSAGE, "reason": "Forbidden"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [_object("ValidatingAdmissionPolicy", name, policy), _object("ValidatingAdmissionPolicyBinding", name, binding)]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
