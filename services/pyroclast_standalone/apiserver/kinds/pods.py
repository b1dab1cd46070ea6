"""Pods."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.resources.pods import quality_of_service
from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.podspecs import check_new_pod, check_pod
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders, read_field
from pyroclast_standalone.apiserver.kinds.pod_defaults import default_pod
from pyroclast_standalone.apiserver.kinds.pod_table import pod_cells, pod_conditions
from pyroclast_standalone.apiserver.kinds.rules import FieldPart, Rules

_BAD_HOST_NAME: Final = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)
_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def warn_of_pod(pod: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Return the warnings about a new pod."""
    if old is not None:
        return []
    spec, faults = pod["spec"], names.dns_label(pod["metadata"]["name"])
    told = [f"{_BAD_HOST_NAME}: [{' '.join(faults)}]"] if faults else []
    told += [f"spec.nodeSelector[{key}]: {_OLD_LABELS[key]}" for key in spec.get("nodeSelector") or () if key in _OLD_LABELS]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}]"
            told += _fractions(container.get("resources") or {}, f"{path}.resources")
            told += _variables(container.get("env") or (), f"{path}.env")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        told.append("spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1")
    return told


def _fractions(resources: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield warnings about fractions of a byte, such as `100m` of memory."""
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            amount = (resources.get(kind) or {}).get(name)
            if amount is not None and quantity.parse(amount).millis % 1000:
                text = f'fractional byte value "{amount}" is invalid, must be an integer'
                yield f"{path}.{kind}[{name}]: {text}"


def _variables(variables: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            own, value = f"$({name})", variable.get("value") or ""
            if "valueFrom" in variable or value == own or own not in value:
                yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


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


def _addresses(pod: Mapping[str, Any]) -> str:
    return ",".join(each.get("ip", "") for each in (pod.get("status") or {}).get("podIPs") or ())


def _host_network(pod: Mapping[str, Any]) -> str:
    return "true" if pod["spec"].get("hostNetwork") else "false"


_FIELDS: Final[FieldReaders] = {
    **{
        path: read_field(path)
        for path in (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        )
    },
    "spec.host": read_field("spec.nodeName"),
    "spec.hostNetwork": _host_network,
    "status.podIPs": _addresses,
}


def _prepare(pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status: dict[str, Any] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        text = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
        status["conditions"] = [{**gated, "lastProbeTime": None, "lastTransitionTime": None}]
    pod["status"] = status


def _prepare_status(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass") and "qosClass" in before:
        status["qosClass"] = before["qosClass"]


_NO_RESIZE: Final = FieldPart(
    keep=lambda new, old: new.update(spec=old["spec"]),
    check=lambda _new, _old: [forbidden("spec", "the embedded API server does not resize pods")],
)


def _take_ephemeral_containers(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    given = new["spec"].get("ephemeralContainers")
    new["spec"] = {**old["spec"], "ephemeralContainers": given or []}
    if not given:
        del new["spec"]["ephemeralContainers"]


def _check_ephemeral_containers(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    mine = {each.get("name"): each for each in new["spec"].get("ephemeralContainers") or ()}
    return [*check_pod(new)] + [
        forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be {what}\n')
        for before in old["spec"].get("ephemeralContainers") or ()
        if (what := "removed" if (name := before.get("name", "")) not in mine else "changed" if mine[name] != before else "")
    ]


POD: Final = Rules(
    default=default_pod,
    check=check_new_pod,
    warnings=warn_of_pod,
    check_update=check_pod_update,
    check_status=check_pod_status,
    prepare=_prepare,
    prepare_status=_prepare_status,
    parts={"ephemeralcontainers": FieldPart(_take_ephemeral_containers, _check_ephemeral_containers), "resize": _NO_RESIZE},
    kept_from_status=("f:metadata/f:ownerReferences", "f:metadata/f:deletionTimestamp"),
    fields=_FIELDS,
    generation=True,
    deletes_to_object=True,
    cells=pod_cells,
    conditions=pod_conditions,
)
