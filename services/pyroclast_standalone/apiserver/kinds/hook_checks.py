"""Validation of what webhooks and admission policies have in common: which requests they are about, and where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pyroclast.resources.go_text import go_quote
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported

from .checks import named, optional_choice
from .label_selectors import check_selector

__all__ = ["check_client", "check_match", "check_parameters", "check_rule", "check_selectors"]

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ONE_TARGET: Final = "exactly one of url or service is required"
_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def _check_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    whole: set[str] = set()  # resources with all their subresources
    everywhere: set[str] = set()  # subresources of all resources
    plain = False
    for index, each in enumerate(resources):
        own = f"{path}[{index}]"
        resource, slash, part = each.partition("/")
        if not each:
            errors.append(required(own))
        elif not slash:
            plain = each != "*"
        else:
            if resource in whole:
                errors.append(invalid(own, each, f"if '{resource}/*' is present, must not specify {each}"))
            if part in everywhere:
                errors.append(invalid(own, each, f"if '*/{part}' is present, must not specify {each}"))
            whole |= {resource} if part == "*" else set()
            everywhere |= {part} if resource == "*" else set()
    if "*/*" in resources and len(resources) > 1:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a rule that says which requests are meant."""
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
        if field == "apiVersions":
            errors += [required(f"{path}.{field}[{index}]") for index, each in enumerate(values) if not each]
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    return [*errors, *optional_choice(rule, "scope", ("*", "Cluster", "Namespaced"), path)]


def _check_url(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    _, colon, port = parts.netloc.rpartition("@")[2].rpartition(":")
    if colon and "]" not in port and port and not port.isdigit():
        shown = url.partition("#")[0]
        return [required(path, f'url must be a valid URL: parse {go_quote(shown)}: invalid port ":{port}" after host{form}')]
    errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        errors.append(invalid(path, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        errors.append(invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _check_service_path(where: str, path: str) -> list[FieldError]:
    if where in {"", "/"}:
        return []
    if where == "//":
        return [invalid(path, where, "segment[0] may not be empty")]
    errors = [] if where.startswith("/") else [invalid(path, where, "must start with a '/'")]
    for index, step in enumerate(where[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, where, f"segment[{index}] may not be empty"))
        else:
            errors += [invalid(path, where, f"segment[{index}]: {text}") for text in names.dns_subdomain(step)]
    return errors


def check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with where a webhook is."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, _ONE_TARGET)]
    if service is None:
        return _check_url(str(url), f"{path}.url")
    own, port = f"{path}.service", service.get("port", 443)
    errors = [required(f"{own}.{field}") for field in ("name", "namespace") if not service.get(field)]
    if not 1 <= port <= 65535:
        errors.append(invalid(f"{own}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    return [*errors, *_check_service_path(service.get("path") or "", f"{own}.path")]


def check_selectors(holder: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the labels that objects and their namespaces must have."""
    return [
        error
        for field in ("namespaceSelector", "objectSelector")
        for error in check_selector(holder.get(field) or {}, f"{path}.{field}")
    ]


def check_match(match: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """What is wrong with the requests that a policy is about."""
    if match is None:
        return []
    errors = [*optional_choice(match, "matchPolicy", ("Equivalent", "Exact"), path), *check_selectors(match, path)]
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += check_rule(rule, f"{path}.{field}[{index}]")
    return errors


def check_parameters(reference: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """What is wrong with where a binding finds the parameters of its policy."""
    if reference is None:
        return []
    name, selector, action = reference.get("name", ""), reference.get("selector"), reference.get("parameterNotFoundAction")
    errors: list[FieldError] = []
    if name:
        errors += named(name, names.path_segment, f"{path}.name")
    if selector is not None:
        errors += check_selector(selector, f"{path}.selector")
    if name and selector is not None:
        errors += [forbidden(f"{path}.name", _EXCLUSIVE), forbidden(f"{path}.selector", _EXCLUSIVE)]
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    own = f"{path}.parameterNotFoundAction"
    if not action:
        return [*errors, required(own)]
    return errors if action in {"Deny", "Allow"} else [*errors, unsupported(own, action, ["Deny", "Allow"])]
