"""Webhook configurations and admission policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import named, optional_choice
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

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ONE_TARGET: Final = "exactly one of url or service is required"


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


def _check_resources(resources: list[str], path: str) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors = [required(f"{path}[{index}]") for index, each in enumerate(resources) if not each]
    if "*/*" in resources and len(resources) > 1:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    elif "*" in resources and any("/" not in each and each != "*" for each in resources):
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
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    return [*errors, *optional_choice(rule, "scope", ("*", "Cluster", "Namespaced"), path)]


def _check_url(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        errors.append(invalid(path, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        errors.append(invalid(path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, _ONE_TARGET)]
    if service is None:
        return _check_url(str(url), f"{path}.url")
    errors = [required(f"{path}.service.{field}") for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        errors.append(invalid(f"{path}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    where = service.get("path")
    if where is not None and not where.startswith("/"):
        errors.append(invalid(f"{path}.service.path", where, "must start with a '/'"))
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
    if not {"v1", "v1beta1"} & set(versions):
        return [invalid(path, versions, "must include at least one of v1, v1beta1")]
    return []


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
        errors += _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
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
    else:
        if not match.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
        for field in ("resourceRules", "excludeResourceRules"):
            for index, rule in enumerate(match.get(field) or ()):
                errors += check_rule(rule, f"spec.matchConstraints.{field}[{index}]")
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
        if not acts:
            return errors
        actions = spec.get("validationActions") or []
        if not actions:
            errors.append(required("spec.validationActions", "at least one validation action is required"))
        for index, action in enumerate(actions):
            if action not in {"Audit", "Deny", "Warn"}:
                errors.append(unsupported(f"spec.validationActions[{index}]", action, ["Audit", "Deny", "Warn"]))
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
