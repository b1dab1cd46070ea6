"""CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from pyroclast_standalone.apiserver.documents.field_paths import BadFieldPath, find_field
from pyroclast_standalone.apiserver.documents.schema_check import check_schema
from pyroclast_standalone.apiserver.documents.schema_rules import check_rules

from .rules import Rules

__all__ = ["CUSTOM_RESOURCE_DEFINITION"]

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE: Final = 8
_NOT_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")


def _default_definition(document: dict[str, Any]) -> None:
    spec = document["spec"]
    kinds = spec["names"]
    if kind := kinds.get("kind"):
        if not kinds.get("singular"):
            kinds["singular"] = kind.lower()
        if not kinds.get("listKind"):
            kinds["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    client = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if client:
        client.setdefault("port", 443)


def _prepare_definition(document: dict[str, Any]) -> None:
    stored = [each.get("name") for each in document["spec"].get("versions") or () if each.get("storage")]
    document["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored[:1]}


def _check_names(kinds: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not kinds.get(field)]
    for field, is_mixed in (("plural", False), ("singular", False), ("kind", True), ("listKind", True)):
        value = kinds.get(field, "")
        wrong = names.dns_service_label(value.lower() if is_mixed else value)
        if value and wrong:
            prefix = "may have mixed case, but should otherwise match: " if is_mixed else ""
            errors.append(invalid(f"{path}.{field}", value, prefix + ",".join(wrong)))
    if kinds.get("kind") and kinds.get("kind") == kinds.get("listKind"):
        errors.append(invalid(f"{path}.listKind", kinds["listKind"], "kind and listKind may not be the same"))
    for field in ("shortNames", "categories"):
        for index, value in enumerate(kinds.get(field) or ()):
            if wrong := names.dns_service_label(value):
                errors.append(invalid(f"{path}.{field}[{index}]", value, ",".join(wrong)))
    return errors


_NOT_SIMPLE: Final = "must be a simple json path starting with ."


def _check_column(column: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not column.get("name"):
        errors.append(required(f"{path}.name"))
    kind = column.get("type", "")
    text = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(required(f"{path}.type", text))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", kind, text))
    if (form := column.get("format")) and form not in _COLUMN_FORMATS:
        errors.append(invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not column.get("jsonPath"):
        errors.append(required(f"{path}.JSONPath"))
    elif not column["jsonPath"].startswith("."):
        errors.append(invalid(f"{path}.JSONPath", column["jsonPath"], _NOT_SIMPLE))
    return errors


def _check_scale(scale: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, roots in (("specReplicasPath", (".spec.",)), ("statusReplicasPath", (".status.",))):
        value = scale.get(field, "")
        if not value:
            errors.append(required(f"{path}.scale.{field}"))
        elif not value.startswith("."):
            errors.append(invalid(f"{path}.scale.{field}", value, _NOT_SIMPLE))
        elif not value.startswith(roots):
            errors.append(invalid(f"{path}.scale.{field}", value, f"should be a json path under {roots[0].rstrip('.')}"))
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith("."):
        errors.append(invalid(f"{path}.scale.labelSelectorPath", selector, _NOT_SIMPLE))
    elif selector and not selector.startswith((".spec.", ".status.")):
        text = "should be a json path under either .spec or .status"
        errors.append(invalid(f"{path}.scale.labelSelectorPath", selector, text))
    return errors


def _check_selectable(fields: list[dict[str, Any]], schema: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(fields):
        own = f"{path}[{index}].jsonPath"
        value = each.get("jsonPath", "")
        if not value:
            errors.append(required(own))
            continue
        try:
            found = find_field(value, schema, brackets=False)
        except BadFieldPath as error:
            errors.append(invalid(own, value, f"is an invalid path: {error}"))
            continue
        if value.startswith(".metadata."):
            errors.append(invalid(own, value, "must not point to fields in metadata"))
        if found.get("type") not in {"string", "boolean", "integer"}:
            errors.append(invalid(own, value, _NOT_SELECTABLE))
        if value in seen:
            errors.append(duplicate(own, value))
        seen.add(value)
    return [*errors, too_many(path, len(seen), _MOST_SELECTABLE)] if len(seen) > _MOST_SELECTABLE else errors


def _part_paths(versions: list[dict[str, Any]]) -> dict[str, str]:
    """Where errors about a part of a version are reported: parts that are equal in all versions count as the definition's."""
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


def _check_version(version: Mapping[str, Any], path: str, shared: Mapping[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []

    def where(part: str) -> str:
        return shared.get(part, f"{path}.{part}")

    name = version.get("name", "")
    if wrong := names.dns_service_label(name):
        errors.append(invalid(f"{path}.name", name, ",".join(wrong)))
    if version.get("deprecationWarning") is not None and not version.get("deprecated"):
        text = "can only be set for deprecated versions"
        errors.append(invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        errors.append(required(f"{path}.schema.openAPIV3Schema"))
    else:
        own = f"{where('schema')}.openAPIV3Schema"
        has_status = (version.get("subresources") or {}).get("status") is not None
        found = check_schema(schema, own, has_status=has_status)
        errors += [*found, *check_rules(schema, own, is_sound=not found)]
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += _check_column(column, f"{where('additionalPrinterColumns')}[{index}]")
    if scale := (version.get("subresources") or {}).get("scale"):
        errors += _check_scale(scale, where("subresources"))
    return [*errors, *_check_selectable(version.get("selectableFields") or [], schema or {}, where("selectableFields"))]


_INTERNAL: Final = (
    ("Name", "name", ""),
    ("Served", "served", False),
    ("Storage", "storage", False),
    ("Deprecated", "deprecated", False),
    ("DeprecationWarning", "deprecationWarning", None),
)
_INTERNAL_PARTS: Final = ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")


def _shown(versions: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The versions as the API shows them in a text: their parts count as the definition's."""
    if not versions:
        return None
    return [
        {**{name: version.get(field, empty) for name, field, empty in _INTERNAL}, **dict.fromkeys(_INTERNAL_PARTS)}
        for version in versions
    ]


def _check_versions(versions: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    shared = _part_paths(versions)
    seen: set[tuple[str, str]] = set()
    for index, version in enumerate(versions):
        found = _check_version(version, f"spec.versions[{index}]", shared)
        errors += [error for error in found if (error.path, str(error)) not in seen]
        seen |= {(error.path, str(error)) for error in found}
    own = [version.get("name") for version in versions]
    if own and (wrong := names.dns_service_label(own[0] or "")):
        errors.append(invalid("spec.version", own[0], ",".join(wrong)))
    if len(set(own)) < len(own):
        errors.append(invalid("spec.versions", _shown(versions), "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(
            invalid("spec.versions", _shown(versions) or None, "must have exactly one version marked as storage version")
        )
        stored = [version.get("name") for version in versions if version.get("storage")]
        errors += [invalid("status.storedVersions", stored[:1], f"must have the storage version {name}") for name in stored[1:]]
        if not stored:
            errors.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    return errors


def _check_conversion(conversion: Mapping[str, Any], path: str) -> list[FieldError]:
    """Objects are converted by their schemas only; what is wrong with a webhook is told in the API's words all the same."""
    strategy = conversion.get("strategy", "None")
    if strategy not in {"None", "Webhook"}:
        return [unsupported(f"{path}.strategy", strategy, ["None", "Webhook"])]
    webhook = conversion.get("webhook") or {}
    versions, client = webhook.get("conversionReviewVersions") or [], webhook.get("clientConfig")
    if strategy == "None":
        text = "should not be set when strategy is not set to Webhook"
        given = {"webhookClientConfig": client, "conversionReviewVersions": versions}
        return [forbidden(f"{path}.{field}", text) for field, value in given.items() if value]
    errors: list[FieldError] = []
    if not client:
        errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    elif bool(client.get("url")) == bool(client.get("service")):
        errors.append(required(f"{path}.webhookClientConfig", "exactly one of url or service is required"))
    if not versions:
        errors.append(required(f"{path}.conversionReviewVersions"))
    return errors or [unsupported(f"{path}.strategy", strategy, ["None"])]


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
    errors += _check_versions(spec.get("versions") or [])
    errors += _check_names(kinds, "spec.names")
    errors += _check_conversion(spec.get("conversion") or {}, "spec.conversion")
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, text))
    if group.endswith(_PROTECTED) and _APPROVAL not in (document["metadata"].get("annotations") or {}):
        text = (
            "protected groups must have approval annotation "
            f'"{_APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        errors.append(required(f"metadata.annotations[{_APPROVAL}]", text))
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
            text = (
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {stored} and removes {stored} from "
                "status.storedVersions"
            )
            errors.append(invalid(f"status.storedVersions[{index}]", stored, text))
    return errors


CUSTOM_RESOURCE_DEFINITION: Final = Rules(
    default=_default_definition,
    check=_check_definition,
    check_update=_update_definition,
    prepare=_prepare_definition,
    generation=True,
)
