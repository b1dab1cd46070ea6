"""Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders, read_field

from .pod_checks import check_new_pod
from .pod_defaults import default_pod
from .pod_table import COLUMNS, pod_cells, pod_conditions
from .pod_updates import check_pod_status, check_pod_update
from .pod_warnings import warn_of_pod
from .rules import Rules

__all__ = ["POD", "quality_of_service"]


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


def _is_zero(amount: str) -> bool:
    return amount == "0" or quantity.parse(amount).is_zero


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """The class of service that its requests and limits give a pod: Guaranteed, Burstable or BestEffort.

    Those of all containers count, unless the pod has some as a whole.
    """
    guaranteed = True
    some = False
    whole = spec.get("resources") or {}
    holders = [spec] if whole.get("limits") or whole.get("requests") else None
    for holder in holders or [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = holder.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = limits.get(name), requests.get(name)
            some = some or any(amount is not None and not _is_zero(amount) for amount in (limit, request))
            if limit is None or _is_zero(limit) or request != limit:
                guaranteed = False
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _prepare(pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status: dict[str, Any] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        text = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": text,
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        ]
    pod["status"] = status


def _prepare_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    if old["spec"].get("schedulingGates") and not new["spec"].get("schedulingGates"):
        status = dict(new.get("status") or {})
        kept = [each for each in status.get("conditions") or () if each.get("reason") != "SchedulingGated"]
        if kept:
            status["conditions"] = kept
        else:
            status.pop("conditions", None)
        new["status"] = status


def _prepare_status(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass") and "qosClass" in before:
        status["qosClass"] = before["qosClass"]


POD: Final = Rules(
    metadata_checks=4,
    default=default_pod,
    check=check_new_pod,
    warnings=warn_of_pod,
    check_update=check_pod_update,
    check_status=check_pod_status,
    prepare=_prepare,
    prepare_update=_prepare_update,
    prepare_status=_prepare_status,
    kept_from_status=("f:metadata/f:ownerReferences", "f:metadata/f:deletionTimestamp"),
    fields=_FIELDS,
    generation=True,
    deletes_to_object=True,
    columns=COLUMNS,
    cells=pod_cells,
    conditions=pod_conditions,
)
