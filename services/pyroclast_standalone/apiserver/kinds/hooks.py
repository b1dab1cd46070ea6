"""Webhook configurations."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast_standalone.apiserver.kinds.checks import named, optional_choice
from pyroclast_standalone.apiserver.kinds.hook_checks import check_client, check_conditions, check_rule, check_selectors
from pyroclast_standalone.apiserver.kinds.rules import Rules


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
