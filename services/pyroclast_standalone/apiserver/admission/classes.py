"""Admission by storage classes: the default class of a claim, and whether a claim may grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.storage.store import Store

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
        """Reject the growth of a claim whose class does not allow expansion.

        Raises:
            StatusError: 403.
        """
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
