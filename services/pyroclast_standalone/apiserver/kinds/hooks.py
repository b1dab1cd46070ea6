"""Webhook configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast.rules.podspecs.options import check_label_selector
from pyroclast_standalone.apiserver.documents.conditions import fault_of_condition
from pyroclast_standalone.apiserver.kinds.rules import Rules, named, optional_choice

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


def _check_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _check_versions(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        own = f"{path}[{index}]"
        known = version in versions[:index]
        errors += [invalid(own, version, "duplicate version")] if known else named(version, names.dns_service_label, own)
    if not {"v1", "v1beta1"} & set(versions):
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors


def _check_webhooks(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hook in enumerate(document.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name", "")
        errors += _check_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _check_name(name, f"{path}.name")
        for at, rule in enumerate(hook.get("rules") or ()):
            errors += check_rule(rule, f"{path}.rules[{at}]")
        errors += optional_choice(hook, "failurePolicy", ("Fail", "Ignore"), path)
        errors += optional_choice(hook, "matchPolicy", ("Equivalent", "Exact"), path)
        effects = hook.get("sideEffects")
        if effects is None:
            errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
        elif effects not in {"None", "NoneOnDryRun"}:
            errors.append(unsupported(f"{path}.sideEffects", effects, ["None", "NoneOnDryRun"]))
        timeout = hook.get("timeoutSeconds", 10)
        if not 1 <= timeout <= 30:
            errors.append(invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"))
        errors += check_selectors(hook, path)
        errors += check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
        errors += optional_choice(hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
        errors += check_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
    return errors


WEBHOOKS: Final = Rules(check=_check_webhooks, generation=True)
"""The rules of mutating and validating webhook configurations."""
