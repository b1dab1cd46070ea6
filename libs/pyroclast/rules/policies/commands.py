"""The policy by which a Command needs the right to update its target, and bears no mark of another authorization.

The API server evaluates it also while the admission service is away, so no user can write the mark that the controllers trust.
"""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, JOBS, QUEUES
from pyroclast.rules.policies.model import MutatingPolicy, Mutation

_TARGET: Final = "object.?target.?{0}.orValue('')"
_MARK: Final = f"metadata.?annotations[?'{keys.AUTHORIZED_FOR}']"
_WANTED: Final = f"({_TARGET.format('uid')} + '/' + object.?action.orValue(''))"
_OF_QUEUE: Final = f"authorizer.group('{QUEUES.group}').resource('{QUEUES.plural}')"
_OF_JOB: Final = f"authorizer.group('{JOBS.group}').resource('{JOBS.plural}').namespace(object.metadata.namespace)"
_MAY: Final = (
    f"({_TARGET.format('kind')} == 'Queue' ? {_OF_QUEUE} : {_OF_JOB}).name({_TARGET.format('name')}).check('update').allowed()"
)
_IS_COMPLETE: Final = (
    f"{_TARGET.format('kind')} in ['Job', 'Queue'] && {_TARGET.format('name')} != '' && {_TARGET.format('uid')} != ''"
)
_FIXED: Final = ("?action", "?target", _MARK)
_SAME: Final = " && ".join(f"object.{field} == oldObject.{field}" for field in _FIXED)
_POINTER: Final = "/metadata/annotations/" + keys.AUTHORIZED_FOR.replace("/", "~1")

COMMANDS_MARKED: Final = MutatingPolicy(
    "pyroclast-command-mutation-policy",
    "pyroclast-command-mutation-binding",
    COMMANDS,
    (
        Mutation(
            f"the annotation `{keys.AUTHORIZED_FOR}`, if the user may update the target",
            f"!({_IS_COMPLETE} && {_MAY}) ? [] : has(object.metadata.annotations) "
            f'? [JSONPatch{{op: "add", path: "{_POINTER}", value: {_WANTED}}}] '
            f': [JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{keys.AUTHORIZED_FOR}": {_WANTED}}}}}]',
        ),
    ),
)


def commands_manifests(*, namespace: str, release: str) -> list[dict[str, Any]]:
    """Return the policy and its binding. The jobflow controller in `namespace` may end the Jobs of its flows."""
    flows = f"'system:serviceaccount:{namespace}:{release}-jobflow'"
    is_of_flow = f"request.userInfo.username == {flows} && {_TARGET.format('kind')} == 'Job'"
    validations = [
        (f"request.operation == 'UPDATE' || ({_IS_COMPLETE})", "target: a Command names the kind (Job or Queue), name and uid"),
        (
            f"request.operation == 'UPDATE' || {is_of_flow} || {_MAY}",
            "a Command needs the verb update on its target, as a Role or ClusterRole grants it",
        ),
        (
            f"request.operation == 'UPDATE' || object.{_MARK}.orValue({_WANTED}) == {_WANTED}",
            f"metadata.annotations[{keys.AUTHORIZED_FOR}]: only admission writes it",
        ),
        (f"request.operation != 'UPDATE' || ({_SAME})", "the action, target and authorization of a Command cannot be changed"),
    ]
    name = f"{release}-commands"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [COMMANDS.group],
                    "apiVersions": ["*"],
                    "resources": [COMMANDS.plural],
                    "operations": ["CREATE", "UPDATE"],
                }
            ]
        },
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"} for expression, message in validations
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [_object("ValidatingAdmissionPolicy", name, policy), _object("ValidatingAdmissionPolicyBinding", name, binding)]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
