"""The policy by which a namespace determines the scheduler of pods that name none."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import PODS

_NAME: Final = "pyroclast-namespace-scheduler"
_DEFAULT: Final = "default-scheduler"  # the API server sets this name in a pod that names no scheduler
_NAMES_NONE: Final = f"object.spec.?schedulerName.orValue('{_DEFAULT}') == '{_DEFAULT}' && !has(object.spec.nodeName)"
_OF_NO_DAEMON_SET: Final = (
    "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == 'DaemonSet')"
)
_SET: Final = (
    f'[JSONPatch{{op: "add", path: "/spec/schedulerName", value: namespaceObject.metadata.labels["{keys.SCHEDULER_NAME}"]}}]'
)


def scheduler_manifests(*, exempt: tuple[str, ...] = (), version: str = "v1") -> list[dict[str, Any]]:
    """Return the policy and its binding. The API server only evaluates it for pods in namespaces with the label."""
    expressions: list[dict[str, Any]] = [{"key": keys.SCHEDULER_NAME, "operator": "Exists"}]
    if exempt:
        expressions.append({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)})
    rule = {"apiGroups": [PODS.group], "apiVersions": [PODS.version], "resources": [PODS.plural], "operations": ["CREATE"]}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchExpressions": expressions}},
        "matchConditions": [
            {"name": "names-no-scheduler", "expression": _NAMES_NONE},
            {"name": "of-no-daemon-set", "expression": _OF_NO_DAEMON_SET},
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _SET}}],
    }
    return [
        _object("MutatingAdmissionPolicy", version, policy),
        _object("MutatingAdmissionPolicyBinding", version, {"policyName": _NAME}),
    ]


def _object(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"admissionregistration.k8s.io/{version}", "kind": kind, "metadata": {"name": _NAME}, "spec": spec}
