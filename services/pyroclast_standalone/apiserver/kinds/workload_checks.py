"""Validation of the kinds that keep pods running, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector

from .amounts import check_amount, check_at_most_all, is_zero
from .checks import named, non_negative, optional_choice
from .claims import check_claim_spec
from .internals import internal_form
from .label_selectors import check_selector, shown_selector, sorted_labels
from .pod_checks import check_template

__all__ = [
    "check_controller",
    "check_daemon_set",
    "check_deployment",
    "check_replica_set",
    "check_revision",
    "check_stateful_set",
    "checks_of_status",
]

_MISMATCH: Final = "`selector` does not match template `labels`"
_LABELS: Final = "spec.template.metadata.labels"


def _check_selector(spec: Mapping[str, Any], kind: str, invalid_text: str) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = check_selector(selector, "spec.selector")
    if errors:
        return [*errors, invalid("spec.selector", shown_selector(selector), invalid_text)]
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [invalid("spec.selector", selector, f"empty selector is invalid for {kind}")]
    return []


def _check_match(spec: Mapping[str, Any]) -> list[FieldError]:
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
    fits = selector is not None and (not any(selector.values()) or from_label_selector(selector).matches(labels or {}))
    return [] if fits else [invalid(_LABELS, sorted_labels(labels), _MISMATCH)]


def _check_pods(template: Mapping[str, Any], kind: str) -> list[FieldError]:
    errors = check_template(template, "spec.template")
    return [*errors, *_check_life(template["spec"], kind)]


def _check_life(spec: Mapping[str, Any], kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (policy := spec.get("restartPolicy", "")) != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ["Always"]))
    if kind and spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return errors


def check_replica_set(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a ReplicaSet."""
    spec = document["spec"]
    errors = non_negative(spec, ("replicas", "minReadySeconds"), "spec")
    wrong = _check_selector(spec, "deployment", "invalid label selector")
    errors += wrong
    if spec.get("selector") is None or not wrong or "empty" in wrong[-1].detail:
        errors += _check_match(spec)
    return [*errors, *_check_pods(spec["template"], "ReplicaSet")]


def _check_strategy(strategy: Mapping[str, Any]) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    match kind:
        case "Recreate":
            text = "may not be specified when strategy `type` is 'Recreate'"
            return [] if rolling is None else [forbidden(path, text)]
        case "RollingUpdate":
            most, more = (rolling or {}).get("maxUnavailable"), (rolling or {}).get("maxSurge")
            errors = [*check_amount(most, f"{path}.maxUnavailable"), *check_amount(more, f"{path}.maxSurge")]
            if is_zero(most) and is_zero(more):
                errors.append(invalid(f"{path}.maxUnavailable", most, "may not be 0 when `maxSurge` is 0"))
            return [*errors, *check_at_most_all(most, f"{path}.maxUnavailable")]
        case _:
            shown = {"Type": kind, "RollingUpdate": None if rolling is None else internal_form(rolling, _ROLLING)}
            return [unsupported("spec.strategy", shown, ["Recreate", "RollingUpdate"])]


_ROLLING: Final = ("maxUnavailable", "maxSurge")


def check_deployment(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a Deployment."""
    spec = document["spec"]
    errors = non_negative(spec, ("replicas",), "spec")
    wrong = _check_selector(spec, "deployment", "invalid label selector")
    errors += wrong
    if spec.get("selector") is None or not wrong or "empty" in wrong[-1].detail:
        errors += _check_match(spec)
    errors += _check_pods(spec["template"], "ReplicaSet")
    errors += _check_strategy(spec["strategy"])
    errors += non_negative(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _check_set_strategy(strategy: Mapping[str, Any]) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    shown = None if rolling is None else internal_form(rolling, ("partition", "maxUnavailable"))
    match kind:
        case "":
            return [required(path)]
        case "OnDelete":
            text = "only allowed for updateStrategy 'RollingUpdate'"
            return [] if rolling is None else [invalid(f"{path}.rollingUpdate", shown, text)]
        case "RollingUpdate":
            return non_negative(rolling or {}, ("partition",), f"{path}.rollingUpdate.partition".removesuffix(".partition"))
        case _:
            return [invalid(path, {"Type": kind, "RollingUpdate": shown}, "must be 'RollingUpdate' or 'OnDelete'")]


def check_stateful_set(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a StatefulSet."""
    spec = document["spec"]
    policy = spec.get("podManagementPolicy", "")
    errors: list[FieldError] = []
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in {"OrderedReady", "Parallel"}:
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _check_set_strategy(spec["updateStrategy"])
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        errors += optional_choice(retention, field, ("Retain", "Delete"), "spec.persistentVolumeClaimRetentionPolicy")
    errors += non_negative(spec, ("replicas", "minReadySeconds"), "spec")
    errors += non_negative(spec.get("ordinals") or {}, ("start",), "spec.ordinals")
    wrong = _check_selector(spec, "statefulset", "")
    errors += wrong
    if spec.get("selector") is None or not wrong or "empty" in wrong[-1].detail:
        errors += _check_match(spec)
    template = spec["template"]
    errors += check_template(template, "spec.template")
    errors += check_labels(template["metadata"].get("labels"), "spec.template.labels")
    errors += _check_life(template["spec"], "StatefulSet")
    if name := spec.get("serviceName"):
        errors += named(name, names.dns_label, "spec.serviceName")
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        errors += check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    return errors


def _check_daemon_strategy(strategy: Mapping[str, Any]) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": None if rolling is None else internal_form(rolling, _ROLLING)}
        return [unsupported("spec.updateStrategy", shown, ["RollingUpdate", "OnDelete"])]
    if rolling is None:
        return [required(path)]
    most, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = [*check_amount(most, f"{path}.maxUnavailable"), *check_amount(more, f"{path}.maxSurge")]
    errors += [*check_at_most_all(most, f"{path}.maxUnavailable"), *check_at_most_all(more, f"{path}.maxSurge")]
    if errors:
        return errors
    if not is_zero(most) and not is_zero(more):
        return [invalid(f"{path}.maxSurge", more, "may not be set when maxUnavailable is non-zero")]
    if is_zero(most) and is_zero(more):
        return [required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")]
    return []


def check_daemon_set(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a DaemonSet."""
    spec = document["spec"]
    selector = spec.get("selector")
    errors = [] if selector is None else check_selector(selector, "spec.selector")
    wrong = bool(errors)
    if not wrong:
        errors += _check_match(spec)
    if selector is not None and not any(selector.values()):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += _check_pods(spec["template"], "DaemonSet")
    errors += non_negative(spec, ("minReadySeconds",), "spec")
    return [*errors, *_check_daemon_strategy(spec["updateStrategy"]), *non_negative(spec, ("revisionHistoryLimit",), "spec")]


def check_controller(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a ReplicationController."""
    spec = document["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template")
    errors = non_negative(spec, ("minReadySeconds",), "spec")
    if not selector:
        errors.append(required("spec.selector"))
    errors += non_negative(spec, ("replicas",), "spec")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template["metadata"].get("labels") or {}
    if selector and not selector.items() <= labels.items():
        errors.append(invalid(_LABELS, sorted_labels(labels), _MISMATCH))
    return [*errors, *check_template(template, "spec.template"), *_check_life(template["spec"], "ReplicationController")]


def check_revision(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a ControllerRevision."""
    errors = [] if document.get("data") is not None else [required("data", "data is mandatory")]
    return [*errors, *non_negative(document, ("revision",), "")]


def checks_of_status(counts: Sequence[str], bounds: Sequence[tuple[str, str, str]]) -> Any:  # noqa: ANN401 - a check of an update
    """A check that `counts` are no less than zero, and that of each pair of `bounds` the first is not above the second.

    The third of a bound is how the message names the second.
    """

    def check(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors = non_negative(status, counts, "status")
        for less, more, shown in bounds:
            if status.get(less, 0) > status.get(more, 0):
                errors.append(invalid(f"status.{less}", status.get(less, 0), f"cannot be greater than {shown}"))
        count, known = status.get("collisionCount"), before.get("collisionCount")
        if "collisionCount" in counts and (count or 0) < (known or 0):
            errors.append(invalid("status.collisionCount", 0 if count is None else count, "cannot be decremented"))
        return errors

    return check
