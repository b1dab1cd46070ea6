"""Resource types: group, version and plural of each kind, and its URL paths.

They are separate from the models, because clients, informers and the chart need them without the schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """Namespace and name of an object; the namespace is empty for a cluster-scoped object.

    A msgspec struct, because keys are created and looked up for every event and request, which takes four times as long with a
    dataclass.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> Key:
        """Return the key whose `str` is `text`."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


@dataclass(frozen=True)
class ResourceType:
    """A kind as the API server serves it. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @cached_property
    def api_version(self) -> str:
        """The value of `apiVersion` in objects of this type."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """`plural.group`, the form in messages and names of CRDs; only the plural in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection (no name), an object or its subresource.

        An empty namespace means all namespaces.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        path += f"/namespaces/{namespace}/{self.plural}" if self.namespaced and namespace else f"/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path


def _core(plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
    return ResourceType("", "v1", plural, kind, namespaced)


def _cluster(group: str, version: str, plural: str, kind: str) -> ResourceType:
    return ResourceType(group, version, plural, kind, namespaced=False)


PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
SERVICES: Final = _core("services", "Service")
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
EVENTS: Final = _core("events", "Event")
PERSISTENT_VOLUME_CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
POD_DISRUPTION_BUDGETS: Final = ResourceType("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
SELF_SUBJECT_REVIEWS: Final = ResourceType(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
LEASES: Final = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")
REPLICATION_CONTROLLERS: Final = _core("replicationcontrollers", "ReplicationController")
DEPLOYMENTS: Final = ResourceType("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = ResourceType("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = ResourceType("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = ResourceType("apps", "v1", "daemonsets", "DaemonSet")
BATCH_CRON_JOBS: Final = ResourceType("batch", "v1", "cronjobs", "CronJob")
BATCH_JOBS: Final = ResourceType("batch", "v1", "jobs", "Job")
PRIORITY_CLASSES: Final = _cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
LIMIT_RANGES: Final = _core("limitranges", "LimitRange")
RUNTIME_CLASSES: Final = _cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
STORAGE_CLASSES: Final = _cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass")
CSI_NODES: Final = _cluster("storage.k8s.io", "v1", "csinodes", "CSINode")
CSI_DRIVERS: Final = _cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
CSI_STORAGE_CAPACITIES: Final = ResourceType("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
RESOURCE_CLAIMS: Final = ResourceType("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_SLICES: Final = _cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
DEVICE_CLASSES: Final = _cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
DEVICE_TAINT_RULES: Final = _cluster("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule")
NETWORK_POLICIES: Final = ResourceType("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ROLES: Final = ResourceType("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS: Final = ResourceType("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS: Final = _cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
CRDS: Final = _cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
MUTATING_WEBHOOKS: Final = _cluster(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOKS: Final = _cluster(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)

JOBS: Final = ResourceType("batch.volcano.sh", "v1alpha1", "jobs", "Job")
CRON_JOBS: Final = ResourceType("batch.volcano.sh", "v1alpha1", "cronjobs", "CronJob")
COMMANDS: Final = ResourceType("bus.volcano.sh", "v1alpha1", "commands", "Command")
POD_GROUPS: Final = ResourceType("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
NATIVE_POD_GROUPS: Final = ResourceType("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
COMPOSITE_POD_GROUPS: Final = ResourceType("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup")
QUEUES: Final = _cluster("scheduling.volcano.sh", "v1beta1", "queues", "Queue")
JOB_FLOWS: Final = ResourceType("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
JOB_TEMPLATES: Final = ResourceType("flow.volcano.sh", "v1alpha1", "jobtemplates", "JobTemplate")
HYPER_JOBS: Final = ResourceType("training.volcano.sh", "v1alpha1", "hyperjobs", "HyperJob")
HYPER_NODES: Final = _cluster("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode")
NUMATOPOLOGIES: Final = _cluster("nodeinfo.volcano.sh", "v1alpha1", "numatopologies", "Numatopology")
NODE_SHARDS: Final = _cluster("shard.volcano.sh", "v1alpha1", "nodeshards", "NodeShard")
COLOCATION_CONFIGURATIONS: Final = ResourceType(
    "config.volcano.sh", "v1alpha1", "colocationconfigurations", "ColocationConfiguration"
)
