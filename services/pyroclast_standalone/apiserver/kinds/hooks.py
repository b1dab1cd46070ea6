"""Webhook configurations and admission policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import named, optional_choice
from .hook_checks import check_client, check_match, check_parameters, check_rule, check_selectors
from .policies import check_conditions, check_policy
from .rules import AGE, NAME, Rules, age_of

__all__ = [
    "MUTATING_POLICY",
    "MUTATING_POLICY_BINDING",
    "MUTATING_WEBHOOKS",
    "VALIDATING_POLICY",
    "VALIDATING_POLICY_BINDING",
    "VALIDATING_WEBHOOKS",
]


def _default_match(holder: dict[str, Any]) -> None:
    holder.setdefault("matchPolicy", "Equivalent")
    holder.setdefault("namespaceSelector", {})
    holder.setdefault("objectSelector", {})


def _default_rules(rules: list[dict[str, Any]] | None) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _default_webhooks(*, mutates: bool) -> Callable[[dict[str, Any]], None]:
    def default(document: dict[str, Any]) -> None:
        for hook in document.get("webhooks") or ():
            _default_match(hook)
            _default_rules(hook.get("rules"))
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("timeoutSeconds", 10)
            if mutates:
                hook.setdefault("reinvocationPolicy", "Never")
            if service := hook["clientConfig"].get("service"):
                service.setdefault("port", 443)

    return default


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


def _webhook_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], len(document.get("webhooks") or ()), age_of(document, now)]


def _webhooks(*, mutates: bool) -> Rules:
    return Rules(
        default=_default_webhooks(mutates=mutates),
        check=_check_webhooks,
        check_update=lambda new, _old: _check_webhooks(new),
        generation=True,
        columns=(NAME, Column("Webhooks", type="integer", description="How many webhooks it registers."), AGE),
        cells=_webhook_cells,
    )


MUTATING_WEBHOOKS: Final = _webhooks(mutates=True)
VALIDATING_WEBHOOKS: Final = _webhooks(mutates=False)


def _default_policy(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("failurePolicy", "Fail")
    if match := spec.get("matchConstraints"):
        _default_match(match)
        for field in ("resourceRules", "excludeResourceRules"):
            _default_rules(match.get(field))


def _check_policy_document(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = optional_choice(spec, "failurePolicy", ("Fail", "Ignore"), "spec")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(required("spec.matchConstraints"))
    elif not match.get("resourceRules"):
        errors.append(required("spec.matchConstraints.resourceRules"))
    errors += check_match(match, "spec.matchConstraints")
    return [*errors, *check_policy(document)]


def _policy_cells(field: str) -> Callable[[Mapping[str, Any], float], list[Any]]:
    def cells(document: Mapping[str, Any], now: float) -> list[Any]:
        spec = document["spec"]
        parameter = spec.get("paramKind")
        shown = f"{parameter.get('apiVersion', '')}/{parameter.get('kind', '')}" if parameter else "<unset>"
        return [document["metadata"]["name"], len(spec.get(field) or ()), shown, age_of(document, now)]

    return cells


def _policy(field: str, title: str) -> Rules:
    return Rules(
        default=_default_policy,
        check=_check_policy_document,
        check_update=lambda new, old: [] if new["spec"] == old["spec"] else _check_policy_document(new),
        generation=True,
        columns=(
            NAME,
            Column(title, type="integer", description="How many rules it has."),
            Column("ParamKind", description="The kind of its parameters."),
            AGE,
        ),
        cells=_policy_cells(field),
    )


VALIDATING_POLICY: Final = _policy("validations", "Validations")
MUTATING_POLICY: Final = _policy("mutations", "Mutations")


def _default_binding(document: dict[str, Any]) -> None:
    if match := document["spec"].get("matchResources"):
        _default_match(match)
        _default_rules(match.get("resourceRules"))


def _check_binding(*, acts: bool) -> Callable[[dict[str, Any]], list[FieldError]]:
    def check(document: dict[str, Any]) -> list[FieldError]:
        spec = document["spec"]
        name = spec.get("policyName", "")
        errors = named(name, names.dns_subdomain, "spec.policyName") if name else [required("spec.policyName")]
        errors += check_parameters(spec.get("paramRef"), "spec.paramRef")
        errors += check_match(spec.get("matchResources"), "spec.matchResources")
        if not acts:
            return errors
        actions = spec.get("validationActions") or []
        if not actions:
            errors.append(required("spec.validationActions", "at least one validation action is required"))
        for index, action in enumerate(actions):
            if action not in {"Audit", "Deny", "Warn"}:
                errors.append(unsupported(f"spec.validationActions[{index}]", action, ["Audit", "Deny", "Warn"]))
            if action in actions[:index]:
                errors.append(duplicate(f"spec.validationActions[{index}]", action))
        if {"Deny", "Warn"} <= set(actions):
            text = (
                "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
                "and headers serves no purpose)"
            )
            errors.append(invalid("spec.validationActions", actions, text))
        return errors

    return check


def _binding_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    reference = spec.get("paramRef")
    shown = "<unset>"
    if reference:
        shown = (
            f"{reference['namespace']}/{reference.get('name', '')}"
            if reference.get("namespace")
            else reference.get("name") or "*"
        )
    return [document["metadata"]["name"], spec.get("policyName", ""), shown, age_of(document, now)]


def _binding(*, acts: bool) -> Rules:
    check = _check_binding(acts=acts)
    return Rules(
        default=_default_binding,
        check=check,
        check_update=lambda new, _old: check(new),
        generation=True,
        columns=(
            NAME,
            Column("PolicyName", description="The policy that it puts into force."),
            Column("ParamRef", description="Where the parameters come from."),
            AGE,
        ),
        cells=_binding_cells,
    )


VALIDATING_POLICY_BINDING: Final = _binding(acts=True)
MUTATING_POLICY_BINDING: Final = _binding(acts=False)
