"""Kinds that steer where and when pods run: PriorityClass, Lease, PodDisruptionBudget, RuntimeClass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.tables import Column

from .amounts import check_amount, check_at_most_all
from .checks import immutable, named, non_negative, optional_choice
from .internals import internal_form
from .label_selectors import check_selector
from .placement import check_tolerations
from .resource_checks import check_resources
from .rules import AGE, NAME, Rules, age_of

__all__ = ["LEASE", "POD_DISRUPTION_BUDGET", "PRIORITY_CLASS", "RUNTIME_CLASS"]

_HIGHEST: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_CLASS: Final = "io.k8s.api.scheduling.v1.PriorityClass."
_RESERVED: Final = "priority class names with 'system-' prefix are reserved for system use only. error: {}"


def _check_priority_class(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = document["metadata"].get("name") or "", document.get("value", 0)
    if name.startswith("system-"):
        if name not in _SYSTEM:
            errors.append(forbidden("metadata.name", _RESERVED.format(f"{name} is not a known system priority class")))
        elif value != _SYSTEM[name]:
            errors.append(forbidden("metadata.name", _RESERVED.format(f"value of {name} PriorityClass must be {_SYSTEM[name]}")))
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    return [*errors, *optional_choice(document, "preemptionPolicy", ("PreemptLowerPriority", "Never"), "")]


def _update_priority_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [] if new.get("value") == old.get("value") else [forbidden("value", "may not be changed in an update.")]
    return [*errors, *immutable(new, old, "preemptionPolicy", "preemptionPolicy")]


def _priority_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [
        document["metadata"]["name"],
        document.get("value", 0),
        bool(document.get("globalDefault")),
        age_of(document, now),
        document.get("preemptionPolicy", ""),
    ]


PRIORITY_CLASS: Final = Rules(
    default=lambda document: document.setdefault("preemptionPolicy", "PreemptLowerPriority"),
    check=_check_priority_class,
    check_update=_update_priority_class,
    generation=True,
    columns=(
        NAME,
        Column("Value", type="integer", doc=f"{_CLASS}value"),
        Column("Global-Default", type="boolean", doc=f"{_CLASS}globalDefault"),
        AGE,
        Column("PreemptionPolicy", doc=f"{_CLASS}preemptionPolicy"),
    ),
    cells=_priority_cells,
)


def _drop_coordination(document: dict[str, Any]) -> None:
    """Take away what belongs to coordinated leader election, which is off."""
    for name in ("strategy", "preferredHolder"):
        document["spec"].pop(name, None)


def _check_lease(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def _lease_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], (document.get("spec") or {}).get("holderIdentity", ""), age_of(document, now)]


LEASE: Final = Rules(
    check=_check_lease,
    check_update=lambda new, _old: _check_lease(new),
    prepare=_drop_coordination,
    prepare_update=lambda new, _old: _drop_coordination(new),
    needs_version=True,
    columns=(NAME, Column("Holder", doc="io.k8s.api.coordination.v1.LeaseSpec.holderIdentity"), AGE),
    cells=_lease_cells,
)


def _check_budget(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    errors: list[FieldError] = []
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for value, own in ((least, "spec.minAvailable"), (most, "spec.maxUnavailable")):
        errors += [*check_amount(value, own), *check_at_most_all(value, own)]
    errors += optional_choice(spec, "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"), "spec")
    if selector := spec.get("selector"):
        errors += check_selector(selector, "spec.selector")
    return errors


def _check_budget_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return non_negative(new.get("status") or {}, counts, "status")


def _budget_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        document["metadata"]["name"],
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status.get("disruptionsAllowed", 0),
        age_of(document, now),
    ]


POD_DISRUPTION_BUDGET: Final = Rules(
    metadata_checks=2,
    check=_check_budget,
    check_update=lambda new, _old: _check_budget(new),
    check_status=_check_budget_status,
    generation=True,
    columns=(
        NAME,
        Column("Min Available", description="How many pods must stay."),
        Column("Max Unavailable", description="How many pods may go."),
        Column("Allowed Disruptions", type="integer", description="How many pods may go now."),
        AGE,
    ),
    cells=_budget_cells,
)


def _runtime_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], document.get("handler", ""), age_of(document, now)]


def _check_runtime_class(document: dict[str, Any]) -> list[FieldError]:
    handler = document.get("handler", "")
    errors = named(handler, names.dns_label, "handler") if handler else [required("handler")]
    overhead = (document.get("overhead") or {}).get("podFixed") or {}
    errors += check_resources({"limits": overhead}, "overhead")
    scheduling = document.get("scheduling") or {}
    errors += check_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    for index, toleration in enumerate(tolerations):
        own = f"scheduling.tolerations[{index}]"
        errors += [
            FieldError(each.path.replace("scheduling.tolerations[0]", own), each.type, each.detail, each.value)
            for each in check_tolerations([toleration], "scheduling.tolerations")
        ]
        if toleration in tolerations[:index]:
            errors.append(duplicate(own, _toleration_form(toleration)))
    return errors


def _toleration_form(toleration: Mapping[str, Any]) -> dict[str, Any]:
    texts = {field: toleration.get(field, "") for field in ("key", "operator", "value", "effect")}
    return internal_form({**texts, **toleration}, (*texts, "tolerationSeconds"))


def _update_runtime_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return immutable(new, old, "handler", "handler")


RUNTIME_CLASS: Final = Rules(
    check=_check_runtime_class,
    check_update=_update_runtime_class,
    metadata_checks=4,
    columns=(NAME, Column("Handler", doc="io.k8s.api.node.v1.RuntimeClass.handler"), AGE),
    cells=_runtime_cells,
)
