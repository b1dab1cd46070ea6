"""The built-in admission plugins of every cluster.

The plugins are synchronous and fast, and run in the order of kube-apiserver. Admission that calls other servers is in `webhooks`.
"""

from __future__ import annotations

import random
from collections.abc import Collection as Names
from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api.keys import CREATED_BY
from pyroclast.resources import quantity
from pyroclast.resources.pods import Additions, as_stored
from pyroclast_standalone.apiserver.admission.chain import Guard, Review
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import Change, Collection, Store

_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_NO_GROWTH: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class Classes:
    """The admission steps that use the storage classes."""

    def __init__(self, store: Store) -> None:
        self._storage = store.collection("storageclasses.storage.k8s.io")

    def fill_in(self, review: Review) -> None:
        """Set the newest default class, of equally old ones the first by name, in a new claim that names no class."""
        body = review.body
        is_claim = review.resource.qualified == "persistentvolumeclaims" and review.operation == "CREATE"
        if not is_claim or review.subresource or body is None or body["spec"].get("storageClassName") is not None:
            return
        found = [each for each in (stored.load() for stored in self._storage.select()) if _is_default(each)]
        found.sort(key=lambda each: str(each["metadata"]["name"]))
        found.sort(key=lambda each: str(each["metadata"].get("creationTimestamp")), reverse=True)
        if found:
            body["spec"]["storageClassName"] = found[0]["metadata"]["name"]

    async def check(self, review: Review) -> None:
        """Reject the growth of a claim whose class does not allow expansion."""
        body = review.body
        is_claim = review.resource.qualified == "persistentvolumeclaims" and review.operation == "UPDATE"
        if not is_claim or review.subresource or body is None or _asked(body) <= _asked(review.old or {}):
            return
        stored = self._storage.items.get(body["spec"].get("storageClassName") or "")
        if stored is None or not stored.load().get("allowVolumeExpansion"):
            raise status.forbidden("", "persistentvolumeclaims", review.name, _NO_GROWTH)


def _asked(claim: Mapping[str, Any]) -> quantity.Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return quantity.parse((resources.get("requests") or {}).get("storage", "0"))


def _is_default(document: Mapping[str, Any]) -> bool:
    return (document["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true"


_TOLERATION_SECONDS: Final = 300
_NO_EXECUTE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MIRROR: Final = "kubernetes.io/config.mirror"
_SYSTEM_CLASSES: Final = {"system-cluster-critical", "system-node-critical"}
_DEFAULT_POLICY: Final = "PreemptLowerPriority"


class Plugins:
    """The built-in admission steps with access to the store."""

    def __init__(self, store: Store, registry: Registry, schedulers: Names[str] = (), *, records_creators: bool = False) -> None:
        """`schedulers` are the names of the running schedulers. If empty, no warning about other schedulers is given.

        With `records_creators`, an annotation of each pod names the user who created it, and nobody can change that.
        """
        self._schedulers, self._records_creators = frozenset(schedulers), records_creators
        self._namespaces = store.collection("namespaces")
        self._accounts = store.collection("serviceaccounts")
        self._priorities = store.collection("priorityclasses.scheduling.k8s.io")
        self._runtimes = store.collection("runtimeclasses.node.k8s.io")
        self._ranges = store.collection("limitranges")
        self._nodes = registry.require("", "v1", "nodes")
        self._default: dict[str, Any] | None = None  # computed on first use
        store.listeners.append(self._on_change)
        self._rng = random.Random()  # noqa: S311 - names, not secrets

    @property
    def mutating(self) -> list[Guard]:
        """The steps in order. `require_namespace` is first, so that no other step reports errors about a missing namespace."""
        return [self.require_namespace, self._node_taint, self._creator, self._pod, self._priority_class]

    def require_namespace(self, review: Review) -> None:
        """Reject the creation of objects in a namespace that does not exist or is being deleted."""
        if review.operation != "CREATE" or not review.namespace or not review.resource.namespaced:
            return
        if review.resource.group == "authorization.k8s.io":
            return  # access reviews are always allowed
        stored = self._namespaces.items.get(review.namespace)
        if stored is None:
            raise status.not_found("", "namespaces", review.namespace)
        if stored.deleting and not review.subresource:
            text = f"namespace {review.namespace} is being terminated"
            why = f"unable to create new content in namespace {review.namespace} because it is being terminated"
            raise review.refusal(why, causes=[status.cause("NamespaceTerminating", text, "metadata.namespace")])

    async def warn_of_scheduler(self, review: Review) -> None:
        """Warn the creator of a pod whose scheduler is not running."""
        body = review.body
        is_new = review.operation == "CREATE" and review.resource.qualified == "pods" and not review.subresource
        if not is_new or body is None or not self._schedulers or body["spec"].get("nodeName"):
            return
        name = body["spec"].get("schedulerName", "")
        if name not in self._schedulers:
            known = ", ".join(sorted(self._schedulers))
            text = f'spec.schedulerName: no scheduler named "{name}" runs here, so the pod will stay Pending; give {known}'
            review.context.warn(text)

    def _node_taint(self, review: Review) -> None:
        """Add the not-ready taint to a new node, so that no pod is placed on it before it is ready."""
        if review.resource is not self._nodes or review.operation != "CREATE" or review.body is None:
            return
        taints = review.body.setdefault("spec", {}).setdefault("taints", [])
        if not any(each.get("key") == _NO_EXECUTE[0] and each.get("effect") == "NoSchedule" for each in taints):
            taints.append({"key": _NO_EXECUTE[0], "effect": "NoSchedule"})

    def _creator(self, review: Review) -> None:
        body = review.body
        if not self._records_creators or review.resource.qualified != "pods" or body is None or body.get("kind", "Pod") != "Pod":
            return
        annotations = body["metadata"].get("annotations") or {}
        if review.operation == "CREATE" and not review.subresource:
            body["metadata"]["annotations"] = {**annotations, CREATED_BY: review.context.user.name}
        elif review.operation == "UPDATE" and review.old is not None:
            kept = (review.old["metadata"].get("annotations") or {}).get(CREATED_BY)
            others = {name: value for name, value in annotations.items() if name != CREATED_BY}
            body["metadata"]["annotations"] = others if kept is None else {**others, CREATED_BY: kept}

    def _pod(self, review: Review) -> None:
        body = review.body
        if review.resource.qualified != "pods" or review.subresource or body is None:
            return
        if review.operation == "UPDATE":
            _default_tolerations(body["spec"])
        if review.operation != "CREATE":
            return
        name = body["metadata"].get("name") or ""
        spec = body.setdefault("spec", {})
        if _MIRROR not in (body["metadata"].get("annotations") or {}):
            self._service_account(review.namespace, name, spec)
        runtime = spec.get("runtimeClassName")
        if runtime is not None and runtime not in self._runtimes.items:
            raise status.forbidden("", "pods", name, f'pod rejected: RuntimeClass "{runtime}" not found')
        spec.update(as_stored(spec, self._additions(review.namespace, runtime)))
        self._priority(name, spec)
        _default_tolerations(spec)

    def _additions(self, namespace: str, runtime: str | None) -> Additions:
        ranges = [stored.load().get("spec") or {} for stored in self._ranges.select(namespace)]
        found = self._runtimes.items[runtime].load().get("overhead") or {} if runtime is not None else {}
        return Additions.of((each.get("limits") or () for each in ranges), {runtime or "": found.get("podFixed") or {}})

    def _service_account(self, namespace: str, name: str, spec: dict[str, Any]) -> None:
        account = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = account
        stored = self._accounts.items.get(f"{namespace}/{account}")
        if stored is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise status.forbidden("", "pods", name, why)
        found = stored.load()
        if not spec.get("imagePullSecrets") and found.get("imagePullSecrets"):
            spec["imagePullSecrets"] = found["imagePullSecrets"]
        wanted = spec.get("automountServiceAccountToken")
        if (found.get("automountServiceAccountToken", True) if wanted is None else wanted) is not False:
            self._mount_token(spec)

    def _mount_token(self, spec: dict[str, Any]) -> None:
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        without = [
            each
            for each in containers
            if not any(mount.get("mountPath") == _TOKEN_PATH for mount in each.get("volumeMounts") or ())
        ]
        if not without:
            return
        volumes = spec.get("volumes") or []
        name = next((each["name"] for each in volumes if each["name"].startswith("kube-api-access-")), "")
        if not name:
            name = objectmeta.generate_name("kube-api-access-", self._rng)
            volumes = [*volumes, {"name": name, "projected": _token_projection()}]
        for container in without:
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}]
        spec["volumes"] = volumes

    def _priority(self, name: str, spec: dict[str, Any]) -> None:
        if class_name := spec.get("priorityClassName") or "":
            stored = self._priorities.items.get(class_name)
            if stored is None:
                raise status.forbidden("", "pods", name, f"no PriorityClass with name {class_name} was found")
            found = stored.load()
        else:
            found = self._default_class()
            if found:
                spec["priorityClassName"] = found["metadata"]["name"]
        value = found.get("value", 0)
        policy = found.get("preemptionPolicy") or _DEFAULT_POLICY
        given = spec.get("priority")
        if given is not None and given != value:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; "
            why += f"priority admission controller computed {value} from the given PriorityClass name"
            raise status.forbidden("", "pods", name, why)
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _default_class(self) -> dict[str, Any]:
        """Return the PriorityClass of pods that name none: the default with the lowest value. Empty if no class is a default."""
        if self._default is None:
            classes = [found for found in (each.load() for each in self._priorities.select()) if found.get("globalDefault")]
            self._default = min(classes, key=lambda each: int(each["value"])) if classes else {}
        return self._default

    def _on_change(self, collection: Collection, _: Change) -> None:
        if collection is self._priorities:
            self._default = None

    def _priority_class(self, review: Review) -> None:
        """Reject a second default PriorityClass, and the deletion of a system PriorityClass."""
        body = review.body
        is_class = review.resource.qualified == "priorityclasses.scheduling.k8s.io"
        if is_class and review.operation == "DELETE" and review.name in _SYSTEM_CLASSES:
            raise review.refusal("this is a system priority class and cannot be deleted")
        if not is_class or body is None or not body.get("globalDefault"):
            return
        for stored in self._priorities.select():
            if stored.name != review.name and stored.load().get("globalDefault"):
                raise review.refusal(f"PriorityClass {stored.name} is already marked as default. Only one default can exist")


_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path
_TOKEN_SECONDS: Final = 3607


def _token_projection() -> dict[str, Any]:
    """Return the `projected` source of the token volume."""
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
                }
            },
        ],
        "defaultMode": 420,
    }


def _default_tolerations(spec: dict[str, Any]) -> None:
    tolerations = spec.get("tolerations") or []
    for key in _NO_EXECUTE:
        if not any(each.get("key") in {None, "", key} and each.get("effect") in {None, "", "NoExecute"} for each in tolerations):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations
