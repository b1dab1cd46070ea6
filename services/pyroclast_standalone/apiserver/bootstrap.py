"""What a cluster has from the start: namespaces, priority classes, roles for everybody and for administrators.

Made through the store directly, because nobody may be asked before they exist; missing ones come back at every start.
"""

from __future__ import annotations

from typing import Any, Final

from . import objectmeta
from .registry import Registry
from .store import Store

__all__ = ["ensure_objects"]

_RBAC: Final = "rbac.authorization.k8s.io"
_DEFAULTS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_EVERYBODY: Final = ("system:authenticated",)
_ALL_READ: Final = ("get", "list", "watch")
_ALL_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_WORKLOADS: Final = (
    ("", ("pods", "services", "configmaps", "persistentvolumeclaims", "endpoints", "serviceaccounts", "replicationcontrollers")),
    ("apps", ("daemonsets", "deployments", "replicasets", "statefulsets")),
    ("batch", ("cronjobs", "jobs")),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("policy", ("poddisruptionbudgets",)),
    ("networking.k8s.io", ("ingresses", "networkpolicies")),
)


def _rule(verbs: tuple[str, ...], group: str, *resources: str) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _paths(*paths: str) -> dict[str, Any]:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


_READ: Final = [_rule(_ALL_READ, group, *resources) for group, resources in _WORKLOADS] + [
    _rule(_ALL_READ, "", "events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas")
]
_WRITE: Final = [_rule(_ALL_WRITE, group, *resources) for group, resources in _WORKLOADS] + [
    _rule((*_ALL_READ, *_ALL_WRITE), "", "secrets", "events"),
    _rule(("create",), "", "pods/eviction", "serviceaccounts/token"),
]
_ROLES: Final[dict[str, list[dict[str, Any]]]] = {
    "cluster-admin": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ],
    "admin": [*_READ, *_WRITE, _rule((*_ALL_READ, *_ALL_WRITE), _RBAC, "roles", "rolebindings")],
    "edit": [*_READ, *_WRITE],
    "view": _READ,
    "system:discovery": [
        _paths(
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        )
    ],
    "system:public-info-viewer": [_paths("/healthz", "/livez", "/readyz", "/version", "/version/")],
    "system:basic-user": [
        _rule(("create",), "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
    ],
    "system:auth-delegator": [
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ],
}
_BINDINGS: Final[dict[str, tuple[str, ...]]] = {
    "cluster-admin": ("system:masters",),
    "system:discovery": _EVERYBODY,
    "system:basic-user": _EVERYBODY,
    "system:public-info-viewer": (*_EVERYBODY, "system:unauthenticated"),
}
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _objects() -> list[tuple[str, str, dict[str, Any]]]:
    made: list[tuple[str, str, dict[str, Any]]] = []
    for name in _NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        made.append(("", "Namespace", body))
    for name, value in _PRIORITIES.items():
        description = "Used for system critical pods that must not be moved from their current node."
        body = {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        made.append(("scheduling.k8s.io", "PriorityClass", body))
    for name, rules in _ROLES.items():
        metadata = {"name": name, "labels": dict(_DEFAULTS)}
        made.append((_RBAC, "ClusterRole", {"metadata": metadata, "rules": rules}))
    for name, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": _RBAC, "name": group} for group in groups]
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        metadata = {"name": name, "labels": dict(_DEFAULTS)}
        made.append((_RBAC, "ClusterRoleBinding", {"metadata": metadata, "roleRef": role, "subjects": subjects}))
    return made


def ensure_objects(store: Store, registry: Registry, now: float) -> None:
    """Make what is missing."""
    for group, kind, body in _objects():
        resource = registry.of_kind(group, "v1", kind)
        if resource is None:
            raise LookupError(f"{kind} is not served")
        key = body["metadata"]["name"]
        if key not in resource.collection.items:
            objectmeta.complete(body["metadata"], now)
            store.put(resource.collection, key, objectmeta.ordered(body, resource.kind, resource.api_version))
