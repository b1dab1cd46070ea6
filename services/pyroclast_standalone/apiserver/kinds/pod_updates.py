"""What may change in a pod once it exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, internal, invalid, required

from .addresses import check_address, is_ipv4, parse_address
from .checks import named
from .diffs import diff
from .internals import internal_form
from .pod_annotations import check_annotation_changes, check_annotations
from .pod_checks import check_pod

__all__ = ["check_pod_status", "check_pod_update"]

_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_FREE_FIELDS: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
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


def _check_node_affinity(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """A pod that waits at a gate may only be bound to fewer nodes."""
    mine, theirs = ((each.get("affinity") or {}).get("nodeAffinity") or {} for each in (new, old))
    if not old.get("schedulingGates") or mine == theirs or theirs.get(_REQUIRED) is None:
        return []
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    before = theirs[_REQUIRED].get("nodeSelectorTerms") or []
    terms = (mine.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if before and len(terms) != len(before):
        shown = [_term_form(each) for each in terms] or None
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, shown, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}[{index}]", _term_form(term), text)
        for index, (term, known) in enumerate(zip(terms, before, strict=False))
        if not all(_adds(term.get(field), known.get(field)) for field in ("matchExpressions", "matchFields"))
    ]


def _adds(new: list[dict[str, Any]] | None, old: list[dict[str, Any]] | None) -> bool:
    return (new or [])[: len(old or [])] == (old or [])


def _term_form(term: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field[:1].upper() + field[1:]: [internal_form(each, ("key", "operator", "values")) for each in term[field]]
        if field in term
        else None
        for field in ("matchExpressions", "matchFields")
    }


def _with_old_images(containers: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**mine, "image": theirs.get("image")} for mine, theirs in zip(containers, old, strict=True)]


def _compared(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """`new` with everything that may change set back to what it was."""
    result = dict(new)
    for field in ("containers", "initContainers"):
        if field in result:
            result[field] = _with_old_images(result[field], old.get(field) or [])
    free = list(_FREE_FIELDS)
    if old.get("schedulingGates"):
        free.append("nodeSelector")
    for field in free:
        if field in old:
            result[field] = old[field]
        else:
            result.pop(field, None)
    if old.get("schedulingGates"):
        _free_node_affinity(result, old)
    return result


def _free_node_affinity(result: dict[str, Any], old: Mapping[str, Any]) -> None:
    affinity = {key: value for key, value in (result.get("affinity") or {}).items() if key != "nodeAffinity"}
    before = old.get("affinity")
    if before and "nodeAffinity" in before:
        affinity["nodeAffinity"] = before["nodeAffinity"]
    if affinity or before is not None:
        result["affinity"] = affinity
    else:
        result.pop("affinity", None)


def check_pod_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a pod: little of its spec may change."""
    mine, theirs = new["spec"], old["spec"]
    if mine == theirs:  # found right when it was written, and most updates leave it
        annotations = (new.get("metadata") or {}).get("annotations") or {}
        return [*check_annotations(annotations, mine, "metadata.annotations"), *check_annotation_changes(new, old)]
    errors = [*check_pod(new), *check_annotation_changes(new, old)]
    for field in ("containers", "initContainers"):
        if len(mine.get(field) or ()) != len(theirs.get(field) or ()):
            text = "pod updates may not add or remove containers"
            return [*errors, forbidden(f"spec.{field}", text)]
    errors += [
        required(f"spec.{field}[{index}].image")
        for field in ("containers", "initContainers")
        for index, container in enumerate(mine.get(field) or ())
        if not container.get("image")
    ]
    deadline = _check_deadline(mine, theirs)
    errors += deadline
    if deadline and mine.get("activeDeadlineSeconds") is not None:
        return errors  # nothing more is looked at
    errors += _check_tolerations(mine, theirs)
    errors += _check_gates(mine, theirs)
    errors += [*_check_selector(mine, theirs), *_check_node_affinity(mine, theirs)]
    compared = _compared(mine, theirs)
    if compared != theirs:
        text = f"pod updates may not change fields other than {','.join(_UPDATABLE)}\n{diff(theirs, compared)}"
        errors.append(forbidden("spec", text))
    return errors


def _check_conditions(conditions: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        own, kind = f"status.conditions[{index}]", condition.get("type", "")
        if (generation := condition.get("observedGeneration", 0)) < 0:
            errors.append(invalid(f"{own}.observedGeneration", generation, "must be a non-negative integer"))
        if kind not in {"PodScheduled", "Ready", "Initialized"}:
            errors += named(kind, names.label_key, f"{own}.Type")
    return errors


def _check_families(addresses: Sequence[str], path: str) -> list[FieldError]:
    if len(addresses) < 2:
        return []
    shown, wrong = (
        [{"IP": each} for each in addresses],
        [index for index, each in enumerate(addresses) if not parse_address(each)],
    )
    errors = [
        internal(path, f"failed to check for dual stack with error:invalid IP[{index}]: {addresses[index]}")
        for index in wrong[:1]
    ]
    if wrong or len({is_ipv4(each) for each in addresses}) != len(addresses):
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


def _check_addresses(status: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("podIPs", "hostIPs"):
        given, own = [each.get("ip", "") for each in status.get(field) or ()], f"status.{field}"
        if field == "hostIPs" and given and status.get("hostIP", "") != given[0]:
            errors.append(invalid(f"{own}[0].ip", given[0], "must be equal to `hostIP`"))
        errors += [error for index, each in enumerate(given) for error in check_address(each, f"{own}[{index}]")]
        errors += _check_families(given, own)
    return errors


def _check_nomination(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    name, own = (new.get("status") or {}).get("nominatedNodeName", ""), "status.nominatedNodeName"
    if not name or name == (old.get("status") or {}).get("nominatedNodeName", ""):
        return []
    errors = named(name, names.dns_subdomain, own)
    bound = old["spec"].get("nodeName")
    return [*errors, forbidden(own, "may not be set on pods that are already bound to a node")] if bound else errors


def _check_claims(new: Mapping[str, Any]) -> list[FieldError]:
    known = {each.get("name") for each in new["spec"].get("resourceClaims") or ()}
    told = [each.get("name", "") for each in (new.get("status") or {}).get("resourceClaimStatuses") or ()]
    errors: list[FieldError] = []
    for index, name in enumerate(told):
        own = f"status.resourceClaimStatuses[{index}].name"
        if name not in known:
            errors.append(invalid(own, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in told[:index]:
            errors.append(duplicate(own, name))
    return errors


def check_pod_status(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a pod's status."""
    status = new.get("status") or {}
    errors = [*check_annotation_changes(new, old), *_check_conditions(status.get("conditions") or ())]
    errors += _check_nomination(new, old)
    if (generation := status.get("observedGeneration", 0)) < 0:
        errors.append(invalid("status.observedGeneration", generation, "must be a non-negative integer"))
    errors += [*_check_claims(new), *_check_addresses(status)]
    quality, before = status.get("qosClass"), (old.get("status") or {}).get("qosClass")
    if quality != before:
        errors.append(invalid("status.qosClass", quality or "", "field is immutable"))
    if new["spec"].get("restartPolicy") == "Never":
        ended = {
            each["name"]
            for each in (old.get("status") or {}).get("containerStatuses") or ()
            if "terminated" in (each.get("state") or {})
        }
        for each in status.get("containerStatuses") or ():
            if each["name"] in ended and "terminated" not in (each.get("state") or {}):
                text = "may not be transitioned to non-terminated state"
                errors.append(forbidden(f"status.containerStatuses[{_index_of(status, each)}].state", text))
    return errors


def _index_of(status: Mapping[str, Any], wanted: Mapping[str, Any]) -> int:
    return next(index for index, each in enumerate(status["containerStatuses"]) if each is wanted)
