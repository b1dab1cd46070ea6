"""PriorityClasses and Leases."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast_standalone.apiserver.kinds.checks import immutable, optional_choice
from pyroclast_standalone.apiserver.kinds.rules import Rules

_HIGHEST: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_RESERVED: Final = "priority class names with 'system-' prefix are reserved for system use only. error: {}"


def _check_priority_class(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = document["metadata"].get("name") or "", document.get("value", 0)
    if name.startswith("system-"):
        if value != _SYSTEM.get(name):
            errors.append(forbidden("metadata.name", _RESERVED.format(f"{name} is not a known system priority class")))
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    return [*errors, *optional_choice(document, "preemptionPolicy", ("PreemptLowerPriority", "Never"), "")]


def _update_priority_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [] if new.get("value") == old.get("value") else [forbidden("value", "may not be changed in an update.")]
    return [*errors, *immutable(new, old, "preemptionPolicy", "preemptionPolicy")]


PRIORITY_CLASS: Final = Rules(check=_check_priority_class, check_update=_update_priority_class, generation=True)


def _check_lease(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    return errors


LEASE: Final = Rules(check=_check_lease, needs_version=True)
