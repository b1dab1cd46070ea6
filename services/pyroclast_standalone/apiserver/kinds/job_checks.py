"""Validation of jobs and of the templates of jobs, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    OMITTED,
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector

from .checks import named, non_negative
from .internals import internal_form
from .job_indexes import count_indexes
from .label_selectors import check_selector, shown_selector, sorted_labels
from .pod_checks import check_template

__all__ = ["check_job", "check_job_spec", "check_job_update", "check_prefixed_path"]

_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)
_MODES: Final = ("NonIndexed", "Indexed")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_MOST_AT_ONCE, _MANY, _MOST_AT_ONCE_OF_MANY, _MOST_RULES, _MOST_CODES = 100_000, 100_000, 10_000, 20, 255
_OF_MANY: Final = f"when completions are above {_MANY} and used with backoff limit per index"
_FIXED: Final = ("backoffLimitPerIndex", "managedBy")
_GENERATED: Final = ("controller-uid", "job-name")
_PREFIX: Final = "batch.kubernetes.io/"
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _check_mode(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    mode, completions = spec.get("completionMode"), spec.get("completions")
    parallelism, most_failed = spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    errors: list[FieldError] = []
    if mode is not None and mode not in _MODES:
        return [unsupported(f"{path}.completionMode", mode, _MODES)]
    if mode != "Indexed":
        given = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None]
        return [invalid(f"{path}.{field}", spec[field], "requires indexed completion mode") for field in given]
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MOST_AT_ONCE:
        text = f"must be less than or equal to {_MOST_AT_ONCE} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, text))
    if most_failed is not None and completions is not None and most_failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", most_failed, "must be less than or equal to completions"))
    if most_failed is not None and most_failed > _MOST_AT_ONCE:
        errors.append(invalid(f"{path}.maxFailedIndexes", most_failed, f"must be less than or equal to {_MOST_AT_ONCE}"))
    if (completions or 0) > _MANY and spec.get("backoffLimitPerIndex") is not None:
        if most_failed is None:
            errors.append(required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY}"))
        text = f"must be less than or equal to {_MOST_AT_ONCE_OF_MANY} {_OF_MANY}"
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", most_failed or 0)):
            if value > _MOST_AT_ONCE_OF_MANY:
                errors.append(invalid(f"{path}.{field}", value, text))
    return errors


def _check_codes(codes: Mapping[str, Any], containers: Sequence[str], path: str) -> list[FieldError]:
    operator, values, container = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    errors: list[FieldError] = []
    if not operator:
        errors.append(required(f"{path}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in {"In", "NotIn"}:
        errors.append(unsupported(f"{path}.operator", operator, ["In", "NotIn"]))
    if container is not None and container not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, text))
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            errors.append(duplicate(f"{path}.values[{index}]", value))
    return errors if values == sorted(values) else [*errors, invalid(f"{path}.values", values, "must be ordered")]


def _check_conditions(patterns: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors = [too_many(path, len(patterns), _MOST_RULES)] if len(patterns) > _MOST_RULES else []
    for index, pattern in enumerate(patterns):
        own, status = f"{path}[{index}]", pattern.get("status", "")
        errors += named(pattern.get("type", ""), names.label_key, f"{own}.type")
        if not status:
            errors.append(required(f"{own}.status", 'valid values: ["False" "True" "Unknown"]'))
        elif status not in _STATUSES:
            errors.append(unsupported(f"{own}.status", status, _STATUSES))
    return errors


def _check_failure_policy(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or ()
    pod = spec["template"]["spec"]
    containers = [each.get("name", "") for field in ("containers", "initContainers") for each in pod.get(field) or ()]
    errors = [too_many(f"{path}.rules", len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    for index, rule in enumerate(rules):
        own, action = f"{path}.rules[{index}]", rule.get("action", "")
        if not action:
            errors.append(required(f"{own}.action", 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid(f"{own}.action", action, "requires the backoffLimitPerIndex to be set"))
        elif action not in _ACTIONS:
            errors.append(unsupported(f"{own}.action", action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            errors += _check_codes(codes, containers, f"{own}.onExitCodes")
        errors += _check_conditions(conditions, f"{own}.onPodConditions")
        if codes is not None and conditions:
            errors.append(invalid(own, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            errors.append(invalid(own, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _success_form(policy: Mapping[str, Any]) -> dict[str, Any]:
    return {"Rules": [internal_form(each, ("succeededIndexes", "succeededCount")) for each in policy.get("rules") or ()]}


def _failure_form(policy: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if policy is None:
        return None
    rules = []
    for rule in policy.get("rules") or ():
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        rules.append(
            {
                "Action": rule.get("action", ""),
                "OnExitCodes": None if codes is None else internal_form(codes, ("containerName", "operator", "values")),
                "OnPodConditions": None
                if conditions is None
                else [internal_form(each, ("type", "status")) for each in conditions],
            }
        )
    return {"Rules": rules}


def _check_success_policy(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [invalid(path, _success_form(policy), "requires indexed completion mode")]
    rules, completions = policy.get("rules") or (), spec.get("completions") or 0
    errors: list[FieldError] = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", text))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        errors += _check_success_rule(rule, completions, f"{path}.rules[{index}]")
    return errors


def _check_success_rule(rule: Mapping[str, Any], completions: int, path: str) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: list[FieldError] = []
    if indexes is None and count is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        total, fault = count_indexes(indexes, completions)
        if fault:
            errors.append(invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {fault}"))
    if count is not None:
        errors += non_negative(rule, ("succeededCount",), path)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(f"{path}.succeededCount", count, text))
        if indexes is not None and count > total:
            text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            errors.append(invalid(f"{path}.succeededCount", count, text))
    return errors


def check_prefixed_path(name: str, path: str) -> list[FieldError]:
    """What is wrong with `name` as something that is named under a domain."""
    domain, _, rest = name.partition("/")
    if not name:
        return [required(path)]
    if not domain or not rest:
        return [invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [invalid(path, domain, text) for text in names.dns_subdomain(domain)]


def _check_manager(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    name, own = spec.get("managedBy"), f"{path}.managedBy"
    if name is None:
        return []
    errors = check_prefixed_path(name, own)
    return [*errors, too_long(own, 63)] if len(name) > 63 else errors


def _check_replacement(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    policy, own = spec.get("podReplacementPolicy"), f"{path}.podReplacementPolicy"
    supported = ["Failed"] if spec.get("podFailurePolicy") is not None else ["Failed", "TerminatingOrFailed"]
    return [] if policy is None or policy in supported else [unsupported(own, policy, supported)]


def check_job_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the spec of a job, without what only a job itself has."""
    errors = non_negative(spec, _COUNTS, path)
    if spec.get("maxFailedIndexes") is not None:
        errors += non_negative(spec, ("maxFailedIndexes",), path)
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    errors += [*_check_manager(spec, path), *_check_mode(spec, path)]
    if spec.get("podFailurePolicy") is not None:
        errors += _check_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        errors += _check_success_policy(spec, f"{path}.successPolicy")
    errors += [*_check_replacement(spec, path), *check_template(spec["template"], f"{path}.template")]
    policy, own = spec["template"]["spec"].get("restartPolicy", ""), f"{path}.template.spec.restartPolicy"
    if policy in {"", "Always"}:
        errors.append(required(own, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        errors.append(unsupported(own, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(own, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return errors


def _check_own_spec(spec: Mapping[str, Any]) -> list[FieldError]:
    errors = check_job_spec(spec, "spec")
    selector = spec.get("selector")
    faults = [required("spec.selector")] if selector is None else check_selector(selector, "spec.selector")
    labels = spec["template"]["metadata"].get("labels")
    if selector is None or (not faults and not from_label_selector(selector).matches(labels or {})):
        text = "`selector` does not match template `labels`"
        faults.append(invalid("spec.template.metadata.labels", sorted_labels(labels), text))
    return [*errors, *faults]


def _check_generated(document: Mapping[str, Any]) -> list[FieldError]:
    """Labels and selector that the server gives must be what it gives."""
    spec, metadata = document["spec"], document["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    labels, own = spec["template"]["metadata"].get("labels") or {}, "spec.template.metadata.labels"
    values = {"controller-uid": metadata.get("uid", ""), "job-name": metadata.get("name", "")}
    expected = {prefix + key: values[key] for prefix in ("", _PREFIX) for key in _GENERATED}
    errors: list[FieldError] = []
    for key, value in expected.items():
        if key not in labels:
            errors.append(required(f"{own}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(f"{own}[{key}]", sorted_labels(labels), f"must be '{value}'"))
    if not check_selector(selector, "spec.selector") and not from_label_selector(selector).matches(expected):
        errors.append(invalid("spec.selector", shown_selector(selector), "`selector` not auto-generated"))
    return errors


def check_job(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a job."""
    spec, name = document["spec"], document["metadata"].get("name") or ""
    errors = [*_check_generated(document), *_check_own_spec(spec)]
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        host = f"{name}-{completions - 1}"
        if names.dns_label(host):
            errors.append(invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}"))
    return errors


def check_job_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a job: what its pods are made of may only change while it is suspended."""
    spec, before = new["spec"], old["spec"]
    errors = [*check_job(new), *_check_own_spec(spec), *_check_completions(spec, before)]
    if spec.get("selector") != before.get("selector"):
        errors.append(invalid("spec.selector", spec.get("selector"), "field is immutable"))
    errors += _check_template(spec, before, may_change=_rests(old))
    shown = {
        "completionMode": spec.get("completionMode"),
        "podFailurePolicy": _failure_form(spec.get("podFailurePolicy")),
        **{field: spec.get(field) for field in _FIXED},
        "successPolicy": None if spec.get("successPolicy") is None else _success_form(spec["successPolicy"]),
    }
    changed = [field for field in shown if spec.get(field) != before.get(field)]
    return [*errors, *(invalid(f"spec.{field}", shown[field], "field is immutable") for field in changed)]


def _rests(job: Mapping[str, Any]) -> bool:
    """Whether a job is suspended and none of its pods is left."""
    status = job.get("status") or {}
    suspended = any(each.get("type") == "Suspended" and each.get("status") == "True" for each in status.get("conditions") or ())
    return bool(job["spec"].get("suspend")) and suspended and not status.get("active")


def _check_completions(spec: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed" or completions is None or before.get("completions") is None:
        return [invalid("spec.completions", completions, "field is immutable")]
    if completions != spec.get("parallelism"):
        return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]
    return []


def _settled(template: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """`template` with everything that may change while the job rests set back to what it was."""
    metadata, spec, old = dict(template.get("metadata") or {}), dict(template["spec"]), before["spec"]
    for holder, fields, theirs in (
        (metadata, ("labels", "annotations"), before.get("metadata") or {}),
        (spec, _SCHEDULING, old),
    ):
        for field in fields:
            holder.pop(field, None)
            if field in theirs:
                holder[field] = theirs[field]
    affinity = {**(spec.get("affinity") or {}), "nodeAffinity": (old.get("affinity") or {}).get("nodeAffinity")}
    affinity = {field: value for field, value in affinity.items() if value is not None}
    spec.pop("affinity", None)
    if affinity or "affinity" in old:
        spec["affinity"] = affinity
    for field in ("containers", "initContainers"):
        theirs = old.get(field) or []
        if field in spec and len(spec[field]) == len(theirs):
            spec[field] = [
                {**mine, "resources": each.get("resources", {})} for mine, each in zip(spec[field], theirs, strict=True)
            ]
    return {"metadata": metadata, "spec": spec}


def _check_template(spec: Mapping[str, Any], before: Mapping[str, Any], *, may_change: bool) -> list[FieldError]:
    template, old = spec["template"], before["template"]
    compared = _settled(template, old) if may_change else template
    if compared == old:
        return []
    return [invalid("spec.template", template, "field is immutable")]
