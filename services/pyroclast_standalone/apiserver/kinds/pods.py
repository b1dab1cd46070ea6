"""Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources.pods import quality_of_service
from pyroclast.rules.errors import FieldError, forbidden
from pyroclast.rules.podspecs import check_new_pod, check_pod
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders, read_field
from pyroclast_standalone.apiserver.kinds.pod_defaults import default_pod
from pyroclast_standalone.apiserver.kinds.pod_table import pod_cells, pod_conditions
from pyroclast_standalone.apiserver.kinds.pod_updates import check_pod_status, check_pod_update
from pyroclast_standalone.apiserver.kinds.pod_warnings import warn_of_pod
from pyroclast_standalone.apiserver.kinds.rules import FieldPart, Rules


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
