"""Defaults of pods and of pod templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.resources.pods import as_stored

_MODE: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def pull_policy(image: str) -> str:
    """Return `Always` for an image with the tag latest or without a tag, otherwise `IfNotPresent`."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2] or "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def _default_http(action: dict[str, Any] | None) -> None:
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _default_probe(probe: dict[str, Any]) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http(probe.get("httpGet"))
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_env(variables: list[dict[str, Any]]) -> None:
    for variable in variables:
        source = variable.get("valueFrom")
        if source:
            if "fieldRef" in source:
                source["fieldRef"].setdefault("apiVersion", "v1")
            if "resourceFieldRef" in source and source["resourceFieldRef"].get("divisor") is None:
                source["resourceFieldRef"]["divisor"] = "0"


def _default_container(container: dict[str, Any]) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if ports := container.get("ports"):
        for port in ports:
            port.setdefault("protocol", "TCP")
    if variables := container.get("env"):
        _default_env(variables)
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    if lifecycle := container.get("lifecycle"):
        for hook in lifecycle.values():
            if isinstance(hook, dict):
                _default_http(hook.get("httpGet"))


def _default_downward_items(items: list[dict[str, Any]]) -> None:
    for item in items:
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in item:
            item["resourceFieldRef"].setdefault("divisor", "0")


def _default_projected(volume: dict[str, Any]) -> None:
    volume.setdefault("defaultMode", _MODE)
    for source in volume.get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        if "downwardAPI" in source:
            _default_downward_items(source["downwardAPI"].get("items") or [])


def _default_volume(volume: dict[str, Any]) -> None:
    if len(volume) == ("name" in volume):
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        match kind:
            case "name":
                continue
            case "secret" | "configMap":
                source.setdefault("defaultMode", _MODE)
            case "downwardAPI":
                source.setdefault("defaultMode", _MODE)
                _default_downward_items(source.get("items") or [])
            case "projected":
                _default_projected(source)
            case "ephemeral" if template := source.get("volumeClaimTemplate"):
                default_claim_spec(template["spec"])
            case "hostPath":
                source.setdefault("type", "")


def default_claim_spec(spec: dict[str, Any]) -> None:
    """Set the defaults of a PersistentVolumeClaim's spec."""
    spec.setdefault("volumeMode", "Filesystem")
    _round_up(spec.get("resources") or {})


OFF = ("schedulingGroup",)
"""Fields of a pod's spec whose features are disabled."""


def _round_up(resources: Mapping[str, Any]) -> None:
    """Round amounts up to thousandths, the smallest unit of a resource."""
    for kind in ("limits", "requests"):
        for name, amount in (resources.get(kind) or {}).items():
            if amount.endswith(("n", "u")):
                resources[kind][name] = str(quantity.from_millis(quantity.parse(amount).millis))


def default_pod_spec(spec: dict[str, Any]) -> None:
    """Set the defaults of a pod's spec in a pod or template. Fields of disabled features are removed."""
    for field in OFF:
        spec.pop(field, None)
    for list_name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(list_name) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_template(template: dict[str, Any]) -> None:
    """Set the defaults of a PodTemplateSpec, which are those of its spec."""
    default_pod_spec(template["spec"])


def _use_ports_of_host(container: dict[str, Any]) -> None:
    for port in container.get("ports") or ():
        if "hostPort" not in port and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]


def _agree_on_addresses(status: dict[str, Any]) -> None:
    """Make `podIP` the first of `podIPs`. A missing one is set from the other."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip")


def default_pod(pod: dict[str, Any]) -> None:
    """Set the defaults of a pod."""
    spec = pod["spec"]
    default_pod_spec(spec)
    spec.update(as_stored(spec))
    for list_name in ("containers", "initContainers") if spec.get("hostNetwork") else ():
        for container in spec.get(list_name) or ():
            _use_ports_of_host(container)
    spec.setdefault("enableServiceLinks", True)
    _agree_on_addresses(pod.get("status") or {})
