"""Core kinds with configuration: ConfigMap, Secret, ServiceAccount and ResourceQuota."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required, too_long
from pyroclast.rules.podspecs.requirements import STANDARD, amount_problems, resource_problems
from pyroclast.rules.values import amount
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, age_of


def _is_standard(name: str) -> bool:
    return (name in STANDARD and name != "storage") or name.startswith(("hugepages-", "requests.hugepages-"))


def _check_hard(amounts: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in amounts.items():
        own = f"{path}[{name}]"
        errors += invalid_for(own, name, resource_problems(name))
        if name.startswith("services."):
            errors.append(invalid(own, name, "the embedded API server does not count it"))
        elif "/" not in name and not _is_standard(name):
            errors.append(invalid(own, name, "must be a standard resource for quota"))
        errors += invalid_for(own, value, amount_problems(name, amount(value)))
    return errors


def check_quota(document: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a quota. One with scopes is rejected, because this server would count all pods for it."""
    spec = document["spec"]
    scoped = [f"spec.{field}" for field in ("scopes", "scopeSelector") if spec.get(field)]
    errors = _check_hard(spec.get("hard") or {}, "spec.hard")
    return [*errors, *(forbidden(path, "the embedded API server counts no quotas with scopes") for path in scoped)]


_MAX_BYTES: Final = 1024 * 1024  # of all values together
_UNCHANGEABLE: Final = "field is immutable when `immutable` is set"
_NEEDED_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _check_keys(data: Mapping[str, str], field: str) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, sentence) for key in data for sentence in names.config_map_key(key)]


def _check_immutable(new: Mapping[str, Any], old: Mapping[str, Any], fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _UNCHANGEABLE)]
    errors += [forbidden(field, _UNCHANGEABLE) for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return errors


def _check_config_map(document: dict[str, Any]) -> list[FieldError]:
    data, binary = document.get("data") or {}, document.get("binaryData") or {}
    errors = _check_keys(data, "data")
    for key in data:
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    errors += _check_keys(binary, "binaryData")
    size = sum(len(value.encode()) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
    return [*errors, too_long("[]", _MAX_BYTES)] if size > _MAX_BYTES else errors


def _update_config_map(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return [*_check_immutable(new, old, ("data", "binaryData")), *_check_config_map(new)]


CONFIG_MAP: Final = Rules(check=_check_config_map, check_update=_update_config_map)


def _default_secret(document: dict[str, Any]) -> None:
    texts = document.pop("stringData", None)
    if texts:
        data = document.get("data") or {}
        data.update((key, base64.b64encode(value.encode()).decode()) for key, value in texts.items())
        document["data"] = data


def _size(value: str) -> int:
    try:
        return len(base64.b64decode(value))
    except (binascii.Error, ValueError):
        return len(value)


def _check_secret(document: dict[str, Any]) -> list[FieldError]:
    data = document.get("data") or {}
    errors = _check_keys(data, "data")
    if sum(map(_size, data.values())) > _MAX_BYTES:
        errors.append(too_long("data", _MAX_BYTES))
    kind = document.get("type", "")
    errors += [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]
    return errors


def _update_secret(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = []
    if new.get("type") != old.get("type"):
        errors.append(invalid("type", new.get("type", ""), "field is immutable"))
    return [*errors, *_check_immutable(new, old, ("data",)), *_check_secret(new)]


SECRET: Final = Rules(
    default=_default_secret, check=_check_secret, check_update=_update_secret, fields={"type": read_field("type")}
)


SERVICE_ACCOUNT: Final = Rules(deletes_to_object=True)


def _quota_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    status = document.get("status") or {}
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, limit in sorted((status.get("hard") or {}).items()):
        text = f"{name}: {used.get(name, '0')}/{limit}"
        (limits if name.startswith("limits") else requests).append(text)
    return [document["metadata"]["name"], ", ".join(requests), ", ".join(limits), age_of(document, now)]


RESOURCE_QUOTA: Final = Rules(check=check_quota, deletes_to_object=True, cells=_quota_cells)
