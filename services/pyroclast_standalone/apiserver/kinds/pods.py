"""Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.selectors import FieldReaders, read_field

from .pod_checks import check_new_pod
from .pod_defaults import default_pod
from .pod_parts import EPHEMERAL_CONTAINERS, RESIZE
from .pod_table import COLUMNS, pod_cells, pod_conditions
from .pod_updates import check_pod_status, check_pod_update
from .pod_warnings import warn_of_pod
from .quality import quality_of_service
from .rules import Rules

__all__ = ["POD"]


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
    prepare_status=_prepare_status,
    parts={"ephemeralcontainers": EPHEMERAL_CONTAINERS, "resize": RESIZE},
    kept_from_status=("f:metadata/f:ownerReferences", "f:metadata/f:deletionTimestamp"),
    fields=_FIELDS,
    generation=True,
    deletes_to_object=True,
    columns=COLUMNS,
    cells=pod_cells,
    conditions=pod_conditions,
)
