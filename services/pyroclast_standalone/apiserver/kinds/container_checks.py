"""Validation of containers, in the API's words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)

from .checks import check_fields, choice, required_name
from .handlers import PROBES, check_lifecycle, check_probe
from .mounts import check_devices, check_mounts
from .references import check_env, check_env_from
from .resource_checks import check_resources
from .security import check_context
from .volumes import Volumes

__all__ = ["PodParts", "check_containers", "check_ephemeral_containers", "check_images", "check_init_containers"]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL: Final = ("ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


class PodParts(NamedTuple):
    """What the containers of a pod are checked against.

    Attributes:
        volumes: Those that are right.
        claims: Names of its resource claims.
        grace: How many seconds the pod may take to end.
        restart_policy: That of the whole pod.
        host_users: Whether its users are those of the node.
    """

    volumes: Volumes
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def _check_ports(ports: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        own = f"{path}[{index}]"
        if name := port.get("name"):
            if wrong := names.port_name(name):
                errors += [invalid(f"{own}.name", name, sentence) for sentence in wrong]
            elif name in seen:
                errors.append(duplicate(f"{own}.name", name))
            seen.add(name)
        if not port.get("containerPort"):
            errors.append(required(f"{own}.containerPort"))
        for field in ("containerPort", "hostPort"):
            if (value := port.get(field)) and not 1 <= value <= 65535:
                errors.append(invalid(f"{own}.{field}", value, "must be between 1 and 65535, inclusive"))
        errors += choice(port, "protocol", _PROTOCOLS, own)
    return errors


def _check_resizing(policies: Sequence[Mapping[str, Any]], path: str, restart_policy: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, supported in ((resource, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if not value:
                errors.append(required(path))
            elif value not in supported:
                errors.append(unsupported(path, value, supported))
        if restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


_LISTS: Final = (("ports", _check_ports), ("env", check_env), ("envFrom", check_env_from))


def _check_common(container: Mapping[str, Any], parts: PodParts, path: str) -> list[FieldError]:
    errors = required_name(container, "name", names.dns_label, path)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    errors += choice(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path)
    errors += check_fields(container, _LISTS, path)
    if container.get("volumeMounts"):
        errors += check_mounts(container, parts.volumes, f"{path}.volumeMounts")
    if container.get("volumeDevices"):
        errors += check_devices(container, parts.volumes, f"{path}.volumeDevices")
    errors += choice(container, "imagePullPolicy", _PULL_POLICIES, path)
    if resources := container.get("resources"):
        errors += check_resources(resources, f"{path}.resources", parts.claims)
    if policies := container.get("resizePolicy"):
        errors += _check_resizing(policies, f"{path}.resizePolicy", parts.restart_policy)
    if context := container.get("securityContext"):
        errors += check_context(context, f"{path}.securityContext", host_users=parts.host_users)
    return errors


def _check_restarts(container: Mapping[str, Any], path: str) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: list[FieldError] = []
    if policy is None and not rules:
        return errors
    if policy is None:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTART_POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        own = f"{path}.restartPolicyRules[{index}]"
        if (action := rule.get("action", "")) not in _RULE_ACTIONS:
            errors.append(unsupported(f"{own}.action", action, _RULE_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{own}.exitCodes", "must be specified"))
            continue
        if (operator := codes.get("operator", "")) not in {"In", "NotIn"}:
            errors.append(unsupported(f"{own}.exitCodes.operator", operator, ["In", "NotIn"]))
        if len(codes.get("values") or ()) > 255:
            errors.append(too_many(f"{own}.exitCodes.values", len(codes["values"]), 255))
    return errors


def _check_life(container: Mapping[str, Any], path: str, grace: int | None) -> list[FieldError]:
    errors = check_lifecycle(container, path, grace) if "lifecycle" in container else []
    for probe in PROBES:
        if probe in container:
            errors += check_probe(container, probe, path, grace)
    return errors


def check_containers(containers: list[dict[str, Any]] | None, parts: PodParts, path: str) -> list[FieldError]:
    """What is wrong with the regular containers of a pod."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        own = f"{path}[{index}]"
        errors += _check_common(container, parts, own)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        errors += _check_life(container, own, parts.grace)
        errors += _check_restarts(container, own)
    errors += _host_port_conflicts(containers, path)
    return errors


def _check_image(container: Mapping[str, Any], path: str) -> list[FieldError]:
    image = container.get("image", "")
    padded = image != image.strip()
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")] if padded else []


def check_images(containers: Sequence[Mapping[str, Any]] | None, path: str) -> list[FieldError]:
    """Images of pods, in contrast to those of templates, may not be padded."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers or ()):
        errors += _check_image(container, f"{path}[{index}]")
    return errors


def _host_port_conflicts(containers: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports") or ()):
            if host_port := port.get("hostPort"):
                key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{host_port}"
                if key in seen:
                    errors.append(duplicate(f"{path}[{index}].ports[{at}].hostPort", key))
                seen.add(key)
    return errors


def check_init_containers(
    containers: Sequence[Mapping[str, Any]], regular: Collection[str], parts: PodParts, path: str
) -> list[FieldError]:
    """What is wrong with the init containers of a pod; `regular` are the names of the others."""
    errors: list[FieldError] = []
    seen = set(regular)
    for index, container in enumerate(containers):
        own = f"{path}[{index}]"
        errors += _check_common(container, parts, own)
        errors += _check_restarts(container, own)
        name, is_sidecar = container.get("name", ""), container.get("restartPolicy") == "Always"
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        elif name:
            seen.add(name)
        errors += _host_port_conflicts([container], path)
        if is_sidecar:
            errors += _check_life(container, own, parts.grace)
            continue
        errors += [forbidden(f"{own}.{field}", _ONLY_SIDECARS) for field in ("lifecycle", *PROBES) if field in container]
        for at, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(f"{own}.resizePolicy[{at}].restartPolicy", "RestartContainer", text))
    return errors


def check_ephemeral_containers(spec: Mapping[str, Any], parts: PodParts, path: str) -> list[FieldError]:
    """What is wrong with the containers that are added to a running pod."""
    errors: list[FieldError] = []
    others = {each.get("name", "") for field in ("containers", "initContainers") for each in spec.get(field) or ()}
    seen = set(others)
    text = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        own = f"{path}[{index}]"
        errors += [*_check_common(container, parts, own), *_check_image(container, own)]
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{own}.targetContainerName", target))
        errors += [forbidden(f"{own}.{field}", text) for field in _NOT_EPHEMERAL if container.get(field)]
        for at, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden(f"{own}.volumeMounts[{at}].{field}", text) for field in ("subPath", "subPathExpr") if mount.get(field)
            ]
    return errors
