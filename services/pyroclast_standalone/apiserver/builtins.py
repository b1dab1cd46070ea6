"""The built-in resources that are served: names, scope, verbs, subresources, in the order of the groups' preference.

A table and nothing else; what the kinds do differently is in `kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ALL_VERBS", "BUILTINS", "Builtin", "Subresource"]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CREATE: Final = ("create",)
_SINGLY: Final = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_READ_WRITE: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource as discovery tells it; `group`, `version` are empty when they are those of the resource."""

    name: str
    kind: str
    verbs: tuple[str, ...] = _READ_WRITE
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in resource. `storage` names the collection when it is not `plural.group`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    storage: str = ""

    @property
    def singular(self) -> str:
        """Name of one, as kubectl accepts it."""
        return self.kind.lower()


_SCALE: Final = Subresource("scale", "Scale", group="autoscaling", version="v1")


def _of(group: str, *entries: tuple[str, str, str]) -> tuple[Builtin, ...]:
    """Entries: `plural[/short,short]`, kind, and words: `cluster`, `all`, `create` and names of subresources."""
    group_name, _, version = group.rpartition("/")
    found = []
    for names, kind, text in entries:
        plural, _, short = names.partition("/")
        words = text.split()
        subresources = []
        for word in words:
            if word == "status":
                subresources.append(Subresource("status", kind))
            elif word == "scale":
                subresources.append(_SCALE)
            elif word in _SUBRESOURCES:
                subresources.append(_SUBRESOURCES[word])
        found.append(
            Builtin(
                group_name,
                version,
                plural,
                kind,
                namespaced="cluster" not in words,
                short_names=tuple(short.split(",")) if short else (),
                categories=("all",) if "all" in words else ("api-extensions",) if "api-extensions" in words else (),
                verbs=_CREATE if "create" in words else _SINGLY if plural == "namespaces" else ALL_VERBS,
                subresources=tuple(sorted(subresources, key=lambda each: each.name)),
                storage="events" if plural == "events" else "",
            )
        )
    return tuple(found)


_SUBRESOURCES: Final = {
    "approval": Subresource("approval", "CertificateSigningRequest"),
    "attach": Subresource("attach", "PodAttachOptions", ("create", "get")),
    "binding": Subresource("binding", "Binding", _CREATE),
    "ephemeralcontainers": Subresource("ephemeralcontainers", "Pod"),
    "eviction": Subresource("eviction", "Eviction", _CREATE, "policy", "v1"),
    "exec": Subresource("exec", "PodExecOptions", ("create", "get")),
    "finalize": Subresource("finalize", "Namespace", ("update",)),
    "log": Subresource("log", "Pod", ("get",)),
    "portforward": Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    "resize": Subresource("resize", "Pod"),
    "token": Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),
}

BUILTINS: Final[tuple[Builtin, ...]] = (
    *_of(
        "/v1",
        ("bindings", "Binding", "create"),
        ("configmaps/cm", "ConfigMap", ""),
        ("endpoints/ep", "Endpoints", ""),
        ("events/ev", "Event", ""),
        ("limitranges/limits", "LimitRange", ""),
        ("namespaces/ns", "Namespace", "cluster status finalize"),
        ("nodes/no", "Node", "cluster status"),
        ("persistentvolumeclaims/pvc", "PersistentVolumeClaim", "status"),
        ("persistentvolumes/pv", "PersistentVolume", "cluster status"),
        ("pods/po", "Pod", "all status attach binding ephemeralcontainers eviction exec log portforward resize"),
        ("podtemplates", "PodTemplate", ""),
        ("replicationcontrollers/rc", "ReplicationController", "all status scale"),
        ("resourcequotas/quota", "ResourceQuota", "status"),
        ("secrets", "Secret", ""),
        ("serviceaccounts/sa", "ServiceAccount", "token"),
        ("services/svc", "Service", "all status"),
    ),
    *_of(
        "apps/v1",
        ("controllerrevisions", "ControllerRevision", ""),
        ("daemonsets/ds", "DaemonSet", "all status"),
        ("deployments/deploy", "Deployment", "all status scale"),
        ("replicasets/rs", "ReplicaSet", "all status scale"),
        ("statefulsets/sts", "StatefulSet", "all status scale"),
    ),
    *_of("events.k8s.io/v1", ("events/ev", "Event", "")),
    *_of(
        "authentication.k8s.io/v1",
        ("selfsubjectreviews", "SelfSubjectReview", "cluster create"),
        ("tokenreviews", "TokenReview", "cluster create"),
    ),
    *_of(
        "authorization.k8s.io/v1",
        ("localsubjectaccessreviews", "LocalSubjectAccessReview", "create"),
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", "cluster create"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview", "cluster create"),
        ("subjectaccessreviews", "SubjectAccessReview", "cluster create"),
    ),
    *_of("autoscaling/v2", ("horizontalpodautoscalers/hpa", "HorizontalPodAutoscaler", "all status")),
    *_of("batch/v1", ("cronjobs/cj", "CronJob", "all status"), ("jobs", "Job", "all status")),
    *_of("certificates.k8s.io/v1", ("certificatesigningrequests/csr", "CertificateSigningRequest", "cluster status approval")),
    *_of(
        "networking.k8s.io/v1",
        ("ingressclasses", "IngressClass", "cluster"),
        ("ingresses/ing", "Ingress", "status"),
        ("networkpolicies/netpol", "NetworkPolicy", ""),
    ),
    *_of("policy/v1", ("poddisruptionbudgets/pdb", "PodDisruptionBudget", "status")),
    *_of(
        "rbac.authorization.k8s.io/v1",
        ("clusterrolebindings", "ClusterRoleBinding", "cluster"),
        ("clusterroles", "ClusterRole", "cluster"),
        ("rolebindings", "RoleBinding", ""),
        ("roles", "Role", ""),
    ),
    *_of(
        "storage.k8s.io/v1",
        ("csidrivers", "CSIDriver", "cluster"),
        ("csinodes", "CSINode", "cluster"),
        ("csistoragecapacities", "CSIStorageCapacity", ""),
        ("storageclasses/sc", "StorageClass", "cluster"),
        ("volumeattachments", "VolumeAttachment", "cluster status"),
    ),
    *_of(
        "admissionregistration.k8s.io/v1",
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "cluster api-extensions"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "cluster api-extensions"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "cluster api-extensions"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "cluster status api-extensions"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "cluster api-extensions"),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "cluster api-extensions"),
    ),
    *_of(
        "apiextensions.k8s.io/v1",
        ("customresourcedefinitions/crd,crds", "CustomResourceDefinition", "cluster status api-extensions"),
    ),
    *_of("scheduling.k8s.io/v1", ("priorityclasses/pc", "PriorityClass", "cluster")),
    *_of("coordination.k8s.io/v1", ("leases", "Lease", "")),
    *_of("node.k8s.io/v1", ("runtimeclasses", "RuntimeClass", "cluster")),
    *_of("discovery.k8s.io/v1", ("endpointslices", "EndpointSlice", "")),
    *_of(
        "resource.k8s.io/v1",
        ("deviceclasses", "DeviceClass", "cluster"),
        ("resourceclaims", "ResourceClaim", "status"),
        ("resourceclaimtemplates", "ResourceClaimTemplate", ""),
        ("resourceslices", "ResourceSlice", "cluster"),
    ),
)
