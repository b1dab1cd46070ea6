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
from .resource_checks import is_native

__all__ = ["check_claim_spec", "check_claim_template", "check_modes", "check_storage_name"]

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def check_storage_name(name: str, path: str) -> list[FieldError]:
    """What is wrong with `name` as something that a claim has: storage, or something that is not of Kubernetes."""
    if errors := named(name, names.label_key, path):
        return errors
    return [unsupported(path, name, ["storage"])] if is_native(name) and name != "storage" else []


def _check_size(size: str | None, path: str) -> list[FieldError]:
    if size is None:
        return [required(path)]
    return [] if quantity.parse(size) > quantity.parse("0") else [invalid(path, size, "must be greater than zero")]


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


def check_modes(modes: list[str], path: str) -> list[FieldError]:
    """What is wrong with how a volume may be used."""
    errors = [unsupported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and set(modes) & {*_MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_claim_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the spec of a claim."""
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    if selector := spec.get("selector"):
        errors += check_selector(selector, f"{path}.selector")
    errors += check_modes(modes, f"{path}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    errors += _check_size(size, f"{path}.resources[storage]")
    if name := spec.get("storageClassName"):
        errors += named(name, names.dns_subdomain, f"{path}.storageClassName")
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
        return [invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")]
    same = all(source.get(field) == reference.get(field) for field in ("apiGroup", "kind", "name"))
    return [] if same else [invalid(path, {}, "must match dataSourceRef")]


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
