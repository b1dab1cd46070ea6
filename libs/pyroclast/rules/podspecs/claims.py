"""Rules for the spec of a claim to storage, in a PersistentVolumeClaim or in the template of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import dns_label, dns_subdomain
from pyroclast.rules.podspecs.annotations import check_annotation_names
from pyroclast.rules.podspecs.labels import check_label_selector, check_labels
from pyroclast.rules.values import mapping, string_items, text

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OF_TEMPLATES: Final = ("annotations", "labels", "creationTimestamp")


def _check_modes(modes: list[str], path: str, errors: list[FieldError]) -> None:
    errors += [unsupported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and {*modes} & {*_MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def check_claim_spec(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the spec of a claim at `path`."""
    modes = string_items(spec.get("accessModes"))
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    if selector := spec.get("selector"):
        check_label_selector(selector, f"{path}.selector", errors)
    _check_modes(modes, f"{path}.accessModes", errors)
    size = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    if size is None:
        errors.append(required(f"{path}.resources[storage]"))
    elif (given := amount(size)) is not None and given.nanos <= 0:
        errors.append(invalid(f"{path}.resources[storage]", size, "must be greater than zero"))
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := text(spec.get(field)):
            errors += invalid_for(f"{path}.{field}", name, dns_subdomain(name))
    if (mode := spec.get("volumeMode")) is not None and mode not in ("Block", "Filesystem"):
        errors.append(unsupported(f"{path}.volumeMode", mode, ("Block", "Filesystem")))
    _check_sources(spec, path, errors)


def _check_sources(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            _check_source(mapping(given), f"{path}.{field}", errors)
    if source is None or reference is None:
        return
    one, other = mapping(source), mapping(reference)
    if other.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(one.get(field) != other.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _check_source(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    errors += [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = text(source.get("apiGroup")), text(source.get("kind"))
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group:
        errors += invalid_for(f"{path}.apiGroup", group, dns_subdomain(group))
    if namespace := text(source.get("namespace")):
        errors += invalid_for(f"{path}.namespace", namespace, dns_label(namespace))


def check_claim_template(template: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the template of a claim that belongs to a single pod."""
    metadata = mapping(template.get("metadata"))
    check_annotation_names(mapping(metadata.get("annotations")), f"{path}.metadata.annotations", errors)
    check_labels(mapping(metadata.get("labels")), f"{path}.metadata.labels", errors)
    errors += [forbidden(f"{path}.metadata.{field}", "cannot be set") for field in metadata if field not in _OF_TEMPLATES]
    check_claim_spec(mapping(template.get("spec")), f"{path}.spec", errors)
