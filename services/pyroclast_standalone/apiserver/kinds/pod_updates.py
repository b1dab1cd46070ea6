"""Validation of changes of a pod."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.podspecs import check_pod

_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_FREE_FIELDS: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_MAX_INT32: Final = 2**31 - 1


def _check_deadline(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is None:
        return [] if before is None else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= deadline <= _MAX_INT32:
        return [invalid(path, deadline, f"must be between 0 and {_MAX_INT32}, inclusive")]
    if before is not None and before < deadline:
        return [invalid(path, deadline, "must be less than or equal to previous value")]
    return []


def _check_tolerations(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    def settled(toleration: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    mine = [settled(each) for each in new.get("tolerations") or ()]
    missing = [each for each in old.get("tolerations") or () if settled(each) not in mine]
    if missing:
        return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    return []


def _check_gates(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    before = {gate["name"] for gate in old.get("schedulingGates") or ()}
    return [
        forbidden(f"spec.schedulingGates[{index}].name", "only deletion is allowed, but found new scheduling gate '" + name + "'")
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if (name := gate["name"]) not in before
    ]


def _check_selector(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    wanted, before = new.get("nodeSelector"), old.get("nodeSelector") or {}
    if not old.get("schedulingGates") or before.items() <= (wanted or {}).items():
        return []
    return [invalid("spec.nodeSelector", wanted, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")]


def _with_old_images(containers: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**mine, "image": theirs.get("image")} for mine, theirs in zip(containers, old, strict=True)]


def _compared(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return `new` with each changeable field reset to its old value."""
    result = dict(new)
    for field in ("containers", "initContainers"):
        if field in result:
            result[field] = _with_old_images(result[field], old.get(field) or [])
    for field in (*_FREE_FIELDS, *(("nodeSelector",) if old.get("schedulingGates") else ())):
        if field in old:
            result[field] = old[field]
        else:
            result.pop(field, None)
    return result


def _diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the unified diff of two values as JSON, without its header."""
    before = json.dumps(old, indent=1, sort_keys=True).splitlines()
    after = json.dumps(new, indent=1, sort_keys=True).splitlines()
    lines = difflib.unified_diff(before, after, lineterm="", n=3)
    return "".join(f"{line}\n" for line in islice(lines, 2, None))


def check_pod_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a change of a pod: only few fields of its spec may change."""
    mine, theirs = new["spec"], old["spec"]
    if mine == theirs:
        return []  # it was valid when it was written, and most updates do not change it
    errors = check_pod(new)
    for field in ("containers", "initContainers"):
        if len(mine.get(field) or ()) != len(theirs.get(field) or ()):
            text = "pod updates may not add or remove containers"
            return [*errors, forbidden(f"spec.{field}", text)]
    deadline = _check_deadline(mine, theirs)
    errors += deadline
    if deadline and mine.get("activeDeadlineSeconds") is not None:
        return errors  # no further checks
    errors += [*_check_tolerations(mine, theirs), *_check_gates(mine, theirs), *_check_selector(mine, theirs)]
    compared = _compared(mine, theirs)
    if compared != theirs:
        text = f"pod updates may not change fields other than {','.join(_UPDATABLE)}\n{_diff(theirs, compared)}"
        errors.append(forbidden("spec", text))
    return errors


def check_pod_status(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a change of a pod's status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", "") and old["spec"].get("nodeName"):
        errors.append(forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node"))
    if status.get("qosClass") != before.get("qosClass"):
        errors.append(invalid("status.qosClass", status.get("qosClass") or "", "field is immutable"))
    if new["spec"].get("restartPolicy") != "Never":
        return errors
    ended = {each["name"] for each in before.get("containerStatuses") or () if "terminated" in (each.get("state") or {})}
    for index, each in enumerate(status.get("containerStatuses") or ()):
        if each["name"] in ended and "terminated" not in (each.get("state") or {}):
            text = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"status.containerStatuses[{index}].state", text))
    return errors
