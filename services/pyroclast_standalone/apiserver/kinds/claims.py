"""The spec of a claim, of a PersistentVolumeClaim or in the template of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.metadata import check_labels

from .checks import named, optional_choice
from .label_selectors import check_selector

__all__ = ["MODES", "check_claim_spec", "check_claim_template", "check_volume_size"]

MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def check_volume_size(size: str, path: str) -> list[FieldError]:
    """What is wrong with how much is asked for."""
    amount = quantity.parse(size)
    if amount <= quantity.parse("0"):
        return [invalid(path, size, "must be greater than zero")]
    return []


def _check_source(source: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group:
        errors += named(group, names.dns_subdomain, f"{path}.apiGroup")
    if namespace := source.get("namespace"):
        errors += named(namespace, names.dns_label, f"{path}.namespace")
    return errors


def _check_modes(modes: list[str], path: str) -> list[FieldError]:
    errors = [unsupported(path, mode, MODES) for mode in modes if mode not in MODES]
    if "ReadWriteOncePod" in modes and set(modes) & {*MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_claim_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the spec of a claim."""
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    if selector := spec.get("selector"):
        errors += check_selector(selector, f"{path}.selector")
    errors += _check_modes(modes, f"{path}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    own = f"{path}.resources[storage]"
    errors += [required(own)] if size is None else check_volume_size(size, own)
    for field in ("storageClassName",):
        if name := spec.get(field):
            errors += named(name, names.dns_subdomain, f"{path}.{field}")
    errors += optional_choice(spec, "volumeMode", ("Block", "Filesystem"), path)
    sources = [field for field in ("dataSource", "dataSourceRef") if spec.get(field) is not None]
    for field in sources:
        errors += _check_source(spec[field], f"{path}.{field}")
    if len(sources) == 2:
        errors += _check_both(spec["dataSource"], spec["dataSourceRef"], path)
    if name := spec.get("volumeAttributesClassName"):
        errors += named(name, names.dns_subdomain, f"{path}.volumeAttributesClassName")
    return errors


def _check_both(source: Mapping[str, Any], reference: Mapping[str, Any], path: str) -> list[FieldError]:
    if reference.get("namespace"):
        return [invalid(path, f"{path}.dataSource", "may not be specified when dataSourceRef.namespace is specified")]
    same = all(source.get(field) == reference.get(field) for field in ("apiGroup", "kind", "name"))
    return [] if same else [invalid(path, f"{path}.dataSource", "must match dataSourceRef")]


def check_claim_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the template of a claim that a pod has for itself."""
    metadata = template.get("metadata") or {}
    errors = [
        *check_labels(metadata.get("labels"), f"{path}.metadata.labels"),
        *(
            forbidden(f"{path}.metadata.{field}", "cannot be set")
            for field in metadata
            if field not in {"annotations", "labels", "creationTimestamp"}
        ),
    ]
    return [*errors, *check_claim_spec(template.get("spec") or {}, f"{path}.spec")]
