"""Policies that the chart switches on by themselves: for Commands, placements, groups on pods, and the scheduler of a namespace.

A Command needs the right to update its target, and bears no mark of another authorization. The API server evaluates this also
while the admission service is away, so no user can write the mark that the controllers trust. Only the controllers and the
scheduler write the annotations of seats and placements, because a forged placement would over-commit nodes. A namespace may
determine the scheduler of pods that name none.
"""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, JOBS, POD_GROUPS, PODS, QUEUES
from pyroclast.rules.policies.model import MutatingPolicy, Mutation, rule_for, with_binding
from pyroclast.rules.policies.submitters import SUBMITTER_TRUE

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
        (SUBMITTER_TRUE, f"metadata.annotations[{keys.SUBMITTED_BY}]: it is the user of the request, and is not changed"),
        (f"request.operation != 'UPDATE' || ({_SAME})", "the action, target and authorization of a Command cannot be changed"),
    ]
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule_for(COMMANDS, ("CREATE", "UPDATE"))]},
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"} for expression, message in validations
        ],
    }
    return with_binding("ValidatingAdmissionPolicy", f"{release}-commands", policy)


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
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule_for(POD_GROUPS, ("CREATE", "UPDATE"))]},
        "matchConditions": [
            {"name": "not-ours", "expression": f"!(request.userInfo.username in [{accounts}])"},
            {"name": "changed", "expression": _CHANGED},
        ],
        "validations": [{"expression": "false", "message": _MESSAGE, "reason": "Forbidden"}],
    }
    return with_binding("ValidatingAdmissionPolicy", f"{release}-seats", policy)


_GROUP_ON_POD: Final = f"metadata.?{{0}}[?'{keys.POD_GROUP}']"
_DESCRIBED: Final = " || ".join(
    f"(request.operation == 'CREATE' ? object.{field}.hasValue() : object.{field} != oldObject.{field})"
    for field in (_GROUP_ON_POD.format("annotations"), _GROUP_ON_POD.format("labels"))
)


def described_groups_manifests(*, namespace: str, release: str) -> list[dict[str, Any]]:
    """Return the policy and its binding: only the job controller in `namespace` writes on a pod what its PodGroup would contain.

    The API server only evaluates it for pods with the label, without which the annotation means nothing.
    """
    controllers = f"'system:serviceaccount:{namespace}:{release}-controllers'"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule_for(PODS, ("CREATE", "UPDATE"), PODS.version)],
            "objectSelector": {"matchExpressions": [{"key": keys.POD_GROUP, "operator": "Exists"}]},
        },
        "matchConditions": [
            {"name": "not-ours", "expression": f"request.userInfo.username != {controllers}"},
            {"name": "changed", "expression": _DESCRIBED},
        ],
        "validations": [
            {
                "expression": "false",
                "message": f"metadata.annotations[{keys.POD_GROUP}]: Forbidden: the job controller writes it; leave it as it is",
                "reason": "Forbidden",
            }
        ],
    }
    return with_binding("ValidatingAdmissionPolicy", f"{release}-described-groups", policy)


_NAME: Final = "pyroclast-namespace-scheduler"
_DEFAULT: Final = "default-scheduler"  # the API server sets this name in a pod that names no scheduler
_NAMES_NONE: Final = f"object.spec.?schedulerName.orValue('{_DEFAULT}') == '{_DEFAULT}' && !has(object.spec.nodeName)"
_OF_NO_DAEMON_SET: Final = (
    "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == 'DaemonSet')"
)
_SCHEDULER_SET: Final = (
    f'[JSONPatch{{op: "add", path: "/spec/schedulerName", value: namespaceObject.metadata.labels["{keys.SCHEDULER_NAME}"]}}]'
)


def scheduler_manifests(*, exempt: tuple[str, ...] = (), version: str = "v1") -> list[dict[str, Any]]:
    """Return the policy and its binding. The API server only evaluates it for pods in namespaces with the label."""
    expressions: list[dict[str, Any]] = [{"key": keys.SCHEDULER_NAME, "operator": "Exists"}]
    if exempt:
        expressions.append({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)})
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [rule_for(PODS, ("CREATE",), PODS.version)],
            "namespaceSelector": {"matchExpressions": expressions},
        },
        "matchConditions": [
            {"name": "names-no-scheduler", "expression": _NAMES_NONE},
            {"name": "of-no-daemon-set", "expression": _OF_NO_DAEMON_SET},
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _SCHEDULER_SET}}],
    }
    return with_binding("MutatingAdmissionPolicy", _NAME, policy, version=version)
