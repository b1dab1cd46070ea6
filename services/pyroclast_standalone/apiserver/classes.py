"""What pods and claims get from classes: those that they name, and those that are everybody's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity

from . import status
from .admission import Review
from .store import Collection, Store

__all__ = ["Classes"]

_DEFAULT_STORAGE: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)
_NO_GROWTH: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
_OLD_STORAGE: Final = "volume.beta.kubernetes.io/storage-class"
_OLD_INGRESS: Final = "kubernetes.io/ingress.class"


class Classes:
    """Built-in admission by the objects that classes are."""

    def __init__(self, store: Store) -> None:
        self._runtime = store.collection("runtimeclasses.node.k8s.io")
        self._storage = store.collection("storageclasses.storage.k8s.io")
        self._ingress = store.collection("ingressclasses.networking.k8s.io")

    def fill_in(self, review: Review) -> None:
        """Give a new object what its class says.

        Raises:
            StatusError: 403 where the class is missing, or says something else than the object.
        """
        body = review.body
        if review.operation != "CREATE" or review.subresource or body is None:
            return
        match review.resource.qualified:
            case "pods":
                self._run(review, body["spec"])
            case "persistentvolumeclaims":
                self._take_default(body, "storageClassName", self._storage, _DEFAULT_STORAGE, _OLD_STORAGE)
            case "ingresses.networking.k8s.io":
                self._take_default(body, "ingressClassName", self._ingress, _DEFAULT_INGRESS, _OLD_INGRESS)
            case _:
                pass

    async def check(self, review: Review) -> None:
        """Refuse a pod whose overhead is not that of its class, and a claim that grows where its class does not let it.

        Raises:
            StatusError: 403.
        """
        body = review.body
        if review.subresource or body is None:
            return
        if review.operation == "UPDATE" and review.resource.qualified == "persistentvolumeclaims":
            self._check_growth(review, body)
        if review.operation != "CREATE" or review.resource.qualified != "pods":
            return
        overhead = body["spec"].get("overhead")
        known = ((self._class_of(review, body["spec"]) or {}).get("overhead") or {}).get("podFixed")
        if known is not None and not _same(known, overhead):
            raise _refusal(review, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        if known is None and overhead is not None:
            raise _refusal(review, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

    def _check_growth(self, review: Review, body: Mapping[str, Any]) -> None:
        if _asked(body) <= _asked(review.old or {}):
            return
        stored = self._storage.items.get(body["spec"].get("storageClassName") or "")
        if stored is None or not stored.load().get("allowVolumeExpansion"):
            raise status.forbidden("", "persistentvolumeclaims", review.name, _NO_GROWTH)

    def _class_of(self, review: Review, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        stored = self._runtime.items.get(name)
        if stored is None:
            raise _refusal(review, f'pod rejected: RuntimeClass "{name}" not found')
        return stored.load()

    def _run(self, review: Review, spec: dict[str, Any]) -> None:
        found = self._class_of(review, spec) or {}
        if (overhead := found.get("overhead")) is not None:
            known = overhead.get("podFixed") or {}
            if spec.get("overhead") and not _same(known, spec["overhead"]):
                raise _refusal(review, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            if known:
                spec["overhead"] = dict(known)
        scheduling = found.get("scheduling")
        if scheduling is None:
            return
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
                raise _refusal(review, f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        if tolerations := _merged(spec.get("tolerations") or [], scheduling.get("tolerations") or []):
            spec["tolerations"] = tolerations

    def _take_default(self, body: dict[str, Any], field: str, classes: Collection, marks: Sequence[str], old_way: str) -> None:
        """The youngest of the classes that are marked as default; of equally young ones the first by name."""
        annotations = body["metadata"].get("annotations") or {}
        if body["spec"].get(field) is not None or old_way in annotations:
            return
        found = [each for each in (stored.load() for stored in classes.select()) if _is_marked(each, marks)]
        found.sort(key=lambda each: str(each["metadata"]["name"]))
        found.sort(key=lambda each: str(each["metadata"].get("creationTimestamp")), reverse=True)
        if found:
            body["spec"][field] = found[0]["metadata"]["name"]


def _asked(claim: Mapping[str, Any]) -> quantity.Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return quantity.parse((resources.get("requests") or {}).get("storage", "0"))


def _is_marked(document: Mapping[str, Any], marks: Sequence[str]) -> bool:
    annotations = document["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in marks)


def _refusal(review: Review, why: str) -> status.StatusError:
    return status.forbidden("", "pods", review.name, why)


def _same(one: Mapping[str, str], other: Mapping[str, str] | None) -> bool:
    mine, theirs = ({name: quantity.parse(amount) for name, amount in (each or {}).items()} for each in (one, other))
    return mine == theirs


def _merged(own: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Both, without those that another one covers."""
    merged: list[dict[str, Any]] = []
    every = [*own, *more]
    for index, each in enumerate(every):
        if not any(_covers(other, each) for other in (*merged, *every[index + 1 :])):
            merged.append(dict(each))
    return merged


def _covers(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a pod that has `one` needs no `other`."""
    if one == other:
        return True
    operator = one.get("operator", "")
    if one.get("key", "") != other.get("key", "") and not (not one.get("key") and operator == "Exists"):
        return False
    if one.get("effect") and one["effect"] != other.get("effect"):
        return False
    limit, wanted = one.get("tolerationSeconds"), other.get("tolerationSeconds")
    if one.get("effect") == "NoExecute" and limit is not None and (wanted is None or wanted > limit):
        return False
    if operator == "Exists":
        return True
    return bool(operator == other.get("operator", "") and one.get("value", "") == other.get("value", ""))
