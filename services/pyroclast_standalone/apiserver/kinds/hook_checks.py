"""Validation of webhooks: their rules, addresses, selectors and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast.rules.podspecs.labels import check_label_selector
from pyroclast_standalone.apiserver.documents.conditions import fault_of_condition
from pyroclast_standalone.apiserver.kinds.checks import named, optional_choice

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ONE_TARGET: Final = "exactly one of url or service is required"


def _check_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    if "*/*" in resources and len(resources) > 1:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in each and each != "*" for each in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the faults of a rule."""
    errors: list[FieldError] = []
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    elif "*" in operations and len(operations) > 1:
        errors.append(invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations"))
    errors += [
        unsupported(f"{path}.operations[{index}]", each, _OPERATIONS)
        for index, each in enumerate(operations)
        if each not in _OPERATIONS
    ]
    for field, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}"))
        elif "*" in values and len(values) > 1:
            errors.append(invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {words}"))
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    return [*errors, *optional_choice(rule, "scope", ("*", "Cluster", "Namespaced"), path)]


def _check_url(url: str, path: str) -> list[FieldError]:
    parts, form = urlsplit(url), "; desired format: https://host[/path]"
    if parts.scheme != "https":
        return [invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")]
    return [] if parts.netloc else [invalid(path, parts.netloc, f"host must be specified{form}")]


def check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the faults of a webhook's address."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, _ONE_TARGET)]
    if service is None:
        return _check_url(str(url), f"{path}.url")
    own, port = f"{path}.service", service.get("port", 443)
    errors = [required(f"{own}.{field}") for field in ("name", "namespace") if not service.get(field)]
    if not 1 <= port <= 65535:
        errors.append(invalid(f"{own}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    if (where := service.get("path") or "/")[0] != "/":
        errors.append(invalid(f"{own}.path", where, "must start with a '/'"))
    return errors


def check_selectors(holder: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the faults of the label selectors for objects and namespaces."""
    errors: list[FieldError] = []
    for field in ("namespaceSelector", "objectSelector"):
        check_label_selector(holder.get(field) or {}, f"{path}.{field}", errors)
    return errors


def check_conditions(conditions: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Return the faults of match conditions. A condition that this server cannot evaluate is rejected."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        own = f"{path}[{index}]"
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not text.strip():
            errors.append(required(f"{own}.expression"))
        elif fault := fault_of_condition(text):
            errors.append(invalid(f"{own}.expression", text, fault))
        if not name:
            errors.append(required(f"{own}.name"))
        elif name in seen:
            errors.append(duplicate(f"{own}.name", name))
        else:
            errors += named(name, names.qualified_name, f"{own}.name")
        seen.add(name)
    return errors
