"""Drivers of volumes, and what they do on nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import immutable, named, non_negative, optional_choice
from .label_selectors import check_selector
from .rules import AGE, NAME, Rules, age_of
from .volume_sources import check_csi_driver

__all__ = ["CSI_DRIVER", "CSI_NODE", "CSI_STORAGE_CAPACITY", "VOLUME_ATTACHMENT"]

_STORAGE: Final = "io.k8s.api.storage.v1."
_LONGEST_ID: Final = 256
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _check_tokens(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests") or ()):
        own, audience, seconds = f"spec.tokenRequests[{index}]", token.get("audience", ""), token.get("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(f"{own}.audience", audience))
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:
            errors.append(invalid(f"{own}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > 2**32:
            text = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{own}.expirationSeconds", seconds, text))
    return errors


def _check_driver(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = optional_choice(spec, "fsGroupPolicy", ("File", "None", "ReadWriteOnceWithFSType"), "spec")
    errors += _check_tokens(spec)
    modes, known = spec.get("volumeLifecycleModes") or (), ("Persistent", "Ephemeral")
    errors += [unsupported("spec.volumeLifecycleModes", mode, known) for mode in modes if mode not in known]
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        text = "must be greater than or equal to 10 seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
    return errors


def _update_driver(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    errors = [*_check_driver(new), *immutable(spec, before, "attachRequired", "spec.attachedRequired")]
    return [*errors, *immutable(spec, before, "volumeLifecycleModes", "spec.volumeLifecycleModes")]


def _check_node(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate(document["spec"].get("drivers") or ()):
        own, name, node = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        errors += [*check_csi_driver(name, f"{own}.name"), *([] if node else [required(f"{own}.nodeID")])]
        if len(node) > _LONGEST_ID:
            errors.append(invalid(f"{own}.nodeID", node, f"must be {_LONGEST_ID} characters or less"))
        errors += non_negative(driver.get("allocatable") or {}, ("count",), f"{own}.allocatable")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for at, key in enumerate(keys):
            errors += [] if key else [required(own)]
            errors += [duplicate(own, key)] if key in keys[:at] else []
            errors += named(key, names.label_key, own)
    return errors


def _check_attachment(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    source = spec.get("source") or {}
    errors = check_csi_driver(spec.get("attacher", ""), "spec.attacher")
    given = [field for field in ("inlineVolumeSpec", "persistentVolumeName") if source.get(field) is not None]
    if not given:
        errors.append(required("spec.source", _ONE_SOURCE))
    elif len(given) > 1:
        errors.append(forbidden("spec.source", _ONE_SOURCE))
    elif source.get("persistentVolumeName") == "":
        errors.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    return [*errors, *named(spec.get("nodeName", ""), names.dns_subdomain, "spec.nodeName")]


def _update_attachment(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return [*_check_attachment(new), *immutable(new, old, "spec", "spec")]


def _check_capacity(document: dict[str, Any]) -> list[FieldError]:
    errors = check_selector(document.get("nodeTopology") or {}, "nodeTopology")
    errors += named(document.get("storageClassName", ""), names.dns_subdomain, "storageClassName")
    amount = document.get("capacity")
    if amount is not None and quantity.parse(amount) < quantity.parse("0"):
        errors.append(invalid("capacity", amount, "must be greater than or equal to 0"))
    return errors


def _update_capacity(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return [error for field in ("nodeTopology", "storageClassName") for error in immutable(new, old, field, field)]


CSI_STORAGE_CAPACITY: Final = Rules(check=_check_capacity, check_update=_update_capacity)


def _default_driver(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _driver_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    tokens = spec.get("tokenRequests")
    return [
        document["metadata"]["name"],
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        "<unset>" if tokens is None else ",".join(each.get("audience", "") for each in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age_of(document, now),
    ]


CSI_DRIVER: Final = Rules(
    check=_check_driver,
    check_update=_update_driver,
    default=_default_driver,
    columns=(
        NAME,
        Column("AttachRequired", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.attachRequired"),
        Column("PodInfoOnMount", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.podInfoOnMount"),
        Column("StorageCapacity", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.storageCapacity"),
        Column("TokenRequests", doc=f"{_STORAGE}CSIDriverSpec.tokenRequests"),
        Column("RequiresRepublish", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.requiresRepublish"),
        Column("Modes", doc=f"{_STORAGE}CSIDriverSpec.volumeLifecycleModes"),
        AGE,
    ),
    cells=_driver_cells,
)


def _node_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], len(document["spec"].get("drivers") or ()), age_of(document, now)]


CSI_NODE: Final = Rules(
    check=_check_node,
    check_update=lambda new, _old: _check_node(new),
    columns=(NAME, Column("Drivers", type="integer", description="How many drivers the node has."), AGE),
    cells=_node_cells,
)


def _attachment_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool((document.get("status") or {}).get("attached")),
        age_of(document, now),
    ]


VOLUME_ATTACHMENT: Final = Rules(
    check=_check_attachment,
    check_update=_update_attachment,
    columns=(
        NAME,
        Column("Attacher", format="name", doc=f"{_STORAGE}VolumeAttachmentSpec.attacher"),
        Column("PV", doc=f"{_STORAGE}VolumeAttachmentSource.persistentVolumeName"),
        Column("Node", doc=f"{_STORAGE}VolumeAttachmentSpec.nodeName"),
        Column("Attached", type="boolean", doc=f"{_STORAGE}VolumeAttachmentStatus.attached"),
        AGE,
    ),
    cells=_attachment_cells,
)
