"""Validation of a pod's volumes, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules.podtemplates.volumes import VOLUME_KINDS
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)

from .checks import required_name
from .claims import check_claim_template
from .paths import check_local, check_mode
from .references import check_pod_field, check_resource_field
from .token_volume import TOKEN_PROJECTION
from .volume_sources import SOURCES, needs

__all__ = ["Volumes", "check_volumes"]

Volumes = Mapping[str, Mapping[str, Any]]
"""The volumes that are right, by name."""

_REPORTED_AS: Final = {"gcePersistentDisk": "persistentDisk"}
_FIELDS: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_ORDER: Final = {kind: position for position, kind in enumerate(VOLUME_KINDS)}
_CONFLICT: Final = "conflicting duplicate paths"


def _check_items(source: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items") or ()):
        own = f"{path}.items[{index}]"
        if not (item.get("key") and item.get("path")):
            errors += needs(item, own, "key", "path")
        errors += check_local(item, "path", own)
        errors += check_mode(item, "mode", own)
    return errors


def _check_keys(source: Mapping[str, Any], path: str, name: str) -> list[FieldError]:
    errors = [*needs(source, path, name), *check_mode(source, "defaultMode", path)]
    if "items" in source:
        errors += _check_items(source, path)
    return errors


def _check_file(file: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [] if file.get("path") else [required(f"{path}.path")]
    errors += check_local(file, "path", path)
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        errors += check_pod_field(field, _FIELDS, f"{path}.fieldRef")
        if resource is not None:
            errors.append(invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    elif resource is not None:
        errors += check_resource_field(resource, f"{path}.resourceFieldRef", of_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    errors += check_mode(file, "mode", path)
    return errors


def _check_downward(source: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = check_mode(source, "defaultMode", path)
    return [*errors, *(error for file in source.get("items") or () for error in _check_file(file, path))]


def _check_token(token: Mapping[str, Any], path: str, volume: str) -> list[FieldError]:
    seconds = token.get("expirationSeconds", 0)
    errors: list[FieldError] = []
    if seconds < 600:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 2**32:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if not token.get("path"):
        errors.append(required(f"{volume}.path"))
    errors += check_local(token, "path", volume)
    return errors


def _check_projected(projected: Mapping[str, Any], path: str) -> list[FieldError]:
    if projected == TOKEN_PROJECTION:
        return []
    errors = check_mode(projected, "defaultMode", path)
    taken: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        own = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                each, inner = source[kind], f"{own}.{kind}"
                if not each.get("name"):
                    errors.append(required(f"{inner}.name"))
                errors += _check_items(each, inner)
                for item in each.get("items") or ():
                    errors += _take(item.get("path", ""), taken, path, each.get("name", ""))
        if "downwardAPI" in source:
            for file in source["downwardAPI"].get("items") or ():
                errors += _check_file(file, f"{own}.downwardAPI")
                target = file.get("path", "")
                errors += _take(target, taken, path, target)
        if "serviceAccountToken" in source:
            errors += _check_token(source["serviceAccountToken"], f"{own}.serviceAccountToken", path)
        if len(source) > 1:
            errors.append(forbidden(own, "may not specify more than 1 volume type per source"))
    return errors


def _take(target: str, taken: set[str], path: str, shown: str) -> list[FieldError]:
    """A path belongs to one item."""
    if target in taken:
        return [invalid(path, shown, _CONFLICT)]
    if target:
        taken.add(target)
    return []


def _check_image(image: Mapping[str, Any], path: str, *, of_pod: bool) -> list[FieldError]:
    errors = needs(image, path, "reference") if of_pod else []
    policy = image.get("pullPolicy", "")
    if not policy:
        return [*errors, required(f"{path}.pullPolicy")]
    return errors if policy in _PULL_POLICIES else [*errors, unsupported(f"{path}.pullPolicy", policy, _PULL_POLICIES)]


def _check_ephemeral(source: Mapping[str, Any], path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{path}.volumeClaimTemplate")]
    return check_claim_template(template, f"{path}.volumeClaimTemplate")


def _check_source(volume: Mapping[str, Any], path: str, pod_name: str | None) -> list[FieldError]:
    kinds = [kind for kind in volume if kind in _ORDER]
    if len(kinds) > 1:
        kinds.sort(key=_ORDER.__getitem__)
    if not kinds:
        return [required(path, "must specify a volume type")]
    kind = kinds[0]
    source, own = volume[kind], f"{path}.{_REPORTED_AS.get(kind, kind)}"
    match kind:
        case "emptyDir":
            limit = source.get("sizeLimit")
            too_small = limit is not None and quantity.parse(limit) < quantity.ZERO
            errors = [forbidden(f"{own}.sizeLimit", "SizeLimit field must be a valid resource quantity")] if too_small else []
        case "secret":
            errors = _check_keys(source, own, "secretName")
        case "configMap":
            errors = _check_keys(source, own, "name")
        case "downwardAPI":
            errors = _check_downward(source, own)
        case "projected":
            errors = _check_projected(source, own)
        case "ephemeral":
            errors = _check_ephemeral(source, own)
            claim = f"{pod_name}-{volume.get('name')}"
            if pod_name and volume.get("name"):
                errors += [
                    invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {text}') for text in names.dns_subdomain(claim)
                ]
        case "image":
            errors = _check_image(source, own, of_pod=pod_name is not None)
        case _:
            errors = SOURCES[kind](source, own)
    if len(kinds) > 1:
        errors += [forbidden(f"{path}.{extra}", "may not specify more than 1 volume type") for extra in kinds[1:]]
    return errors


def check_volumes(
    volumes: list[dict[str, Any]], path: str, *, pod_name: str | None = None
) -> tuple[dict[str, dict[str, Any]], list[FieldError]]:
    """The volumes that are right by name, and what is wrong with the others; templates have no `pod_name`."""
    errors: list[FieldError] = []
    right: dict[str, dict[str, Any]] = {}
    made = {f"{pod_name}-{each.get('name')}" for each in volumes if "ephemeral" in each} if pod_name else ()
    for index, volume in enumerate(volumes):
        own = f"{path}[{index}]"
        name = volume.get("name", "")
        wrong = _check_source(volume, own, pod_name)
        wrong += required_name(volume, "name", names.dns_label, own)
        if name in right:
            wrong.append(duplicate(f"{own}.name", name))
        if wrong:
            errors += wrong
        else:
            right[name] = volume
        if made and (claim := (volume.get("persistentVolumeClaim") or {}).get("claimName")) in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{own}.persistentVolumeClaim.claimName", claim, text))
    return right, errors
