"""CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from pyroclast.rules import names
from pyroclast.rules.errors import MISSING, FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents import jsonpath
from pyroclast_standalone.apiserver.documents.schema_check import check_schema
from pyroclast_standalone.apiserver.documents.schema_rules import check_rules
from pyroclast_standalone.apiserver.kinds.rules import Rules

_NOT_FOR_NONE: Final = "should not be set when strategy is not set to Webhook"
_PRESERVED: Final = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"


def _default_definition(document: dict[str, Any]) -> None:
    spec = document["spec"]
    kinds = spec["names"]
    if kind := kinds.get("kind"):
        if not kinds.get("singular"):
            kinds["singular"] = kind.lower()
        if not kinds.get("listKind"):
            kinds["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def _prepare_definition(document: dict[str, Any]) -> None:
    stored = [each.get("name") for each in document["spec"].get("versions") or () if each.get("storage")]
    document["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored[:1]}


_NOT_SIMPLE: Final = "must be a simple json path starting with ."


def _check_path(where: str, path: str) -> list[FieldError]:
    if not where.startswith("."):
        return [invalid(path, where, _NOT_SIMPLE) if where else required(path)]
    return [] if jsonpath.is_readable(where) else [invalid(path, where, "the embedded API server does not read such a path")]


def _check_scale(scale: Mapping[str, Any], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.scale.{field}", value, f"should be a json path under {root}" if value[:1] == "." else _NOT_SIMPLE)
        for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status"))
        if not (value := scale.get(field, "")).startswith(f"{root}.")
    ]


def _part_paths(versions: list[dict[str, Any]]) -> dict[str, str]:
    """Return the path of errors about each part of a version. A part that is equal in all versions belongs to the definition."""
    shared = {
        "schema": "spec.validation",
        "subresources": "spec.subresources",
        "additionalPrinterColumns": "",
        "selectableFields": "",
    }
    return {
        part: path or f"spec.{part}"
        for part, path in shared.items()
        if all(version.get(part) == versions[0].get(part) for version in versions)
    }


@lru_cache(maxsize=64)
def _check_schema(data: bytes, path: str) -> tuple[FieldError, ...]:
    """Return the faults of a schema in JSON. The result is cached, as most writes of a definition do not change its schema."""
    schema = orjson.loads(data)
    found = check_schema(schema, path)
    return (*found, *check_rules(schema, path, is_sound=not found))


def _check_version(version: Mapping[str, Any], path: str, shared: Mapping[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []

    def where(part: str) -> str:
        return shared.get(part, f"{path}.{part}")

    name = version.get("name", "")
    if wrong := names.dns_service_label(name):
        places = [f"{path}.name", *(["spec.version"] if path == "spec.versions[0]" else [])]
        errors += [invalid(place, name, ",".join(wrong)) for place in places]
    if version.get("deprecationWarning") is not None and not version.get("deprecated"):
        text = "can only be set for deprecated versions"
        errors.append(invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        errors.append(required(f"{path}.schema.openAPIV3Schema"))
    else:
        own = f"{where('schema')}.openAPIV3Schema"
        errors += _check_schema(orjson.dumps(schema), own)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += _check_path(column.get("jsonPath", ""), f"{where('additionalPrinterColumns')}[{index}].JSONPath")
    for index, each in enumerate(version.get("selectableFields") or ()):
        errors += _check_path(each.get("jsonPath", ""), f"{where('selectableFields')}[{index}].jsonPath")
    if scale := (version.get("subresources") or {}).get("scale"):
        errors += _check_scale(scale, where("subresources"))
    return errors


def _check_versions(versions: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    shared = _part_paths(versions)
    seen: set[tuple[str, str]] = set()
    for index, version in enumerate(versions):
        found = _check_version(version, f"spec.versions[{index}]", shared)
        errors += [error for error in found if (error.path, str(error)) not in seen]
        seen |= {(error.path, str(error)) for error in found}
    own = [version.get("name") for version in versions]
    if len(set(own)) < len(own):
        errors.append(invalid("spec.versions", MISSING, "must contain unique version names"))
    stored = sum(bool(version.get("storage")) for version in versions)
    if stored != 1:
        shown = MISSING if versions else None
        errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    if not stored:
        errors.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    return errors


def _check_conversion(conversion: Mapping[str, Any], path: str) -> list[FieldError]:
    """Check the conversion: only the strategy None is supported."""
    strategy = conversion.get("strategy", "None")
    if strategy == "None":
        webhook, fields = conversion.get("webhook") or {}, ("clientConfig", "conversionReviewVersions")
        shown = {"clientConfig": "webhookClientConfig"}
        return [forbidden(f"{path}.{shown.get(field, field)}", _NOT_FOR_NONE) for field in fields if webhook.get(field)]
    supported = ["None"] if strategy == "Webhook" else ["None", "Webhook"]
    return [unsupported(f"{path}.strategy", strategy, supported)]


def _check_definition(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    kinds, group = spec.get("names") or {}, spec.get("group", "")
    wanted = f"{kinds.get('plural', '')}.{group}"
    errors: list[FieldError] = []
    if document["metadata"].get("name") != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", document["metadata"].get("name", ""), text))
    if not group:
        errors.append(required("spec.group"))
    elif wrong := names.dns_subdomain(group):
        errors.append(invalid("spec.group", group, ",".join(wrong)))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    scope = spec.get("scope", "")
    if not scope:
        errors.append(required("spec.scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        errors.append(unsupported("spec.scope", scope, ["Cluster", "Namespaced"]))
    if spec.get("preserveUnknownFields"):
        errors.append(invalid("spec.preserveUnknownFields", True, _PRESERVED))
    errors += _check_versions(spec.get("versions") or [])
    errors += [required(f"spec.names.{field}") for field in ("plural", "kind") if not kinds.get(field)]
    errors += _check_conversion(spec.get("conversion") or {}, "spec.conversion")
    return errors


def _update_definition(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [] if new["spec"] == old["spec"] else _check_definition(new)
    established = any(
        each.get("type") == "Established" and each.get("status") == "True"
        for each in (old.get("status") or {}).get("conditions") or ()
    )
    if established:
        for path in ("scope", "group"):
            if new["spec"].get(path) != old["spec"].get(path):
                errors.append(invalid(f"spec.{path}", new["spec"].get(path), "field is immutable"))
        for field in ("kind", "plural"):
            mine, theirs = new["spec"]["names"].get(field), old["spec"]["names"].get(field)
            if mine != theirs:
                errors.append(invalid(f"spec.names.{field}", mine, "field is immutable"))
    versions = {each.get("name") for each in new["spec"].get("versions") or ()}
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in versions:
            text = f"missing from spec.versions; {stored} was a storage version, and objects may still be stored in it"
            errors.append(invalid(f"status.storedVersions[{index}]", stored, text))
    return errors


CUSTOM_RESOURCE_DEFINITION: Final = Rules(
    default=_default_definition,
    check=_check_definition,
    check_update=_update_definition,
    prepare=_prepare_definition,
    generation=True,
)
