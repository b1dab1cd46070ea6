"""Rules for containers, init containers and ephemeral containers of a pod, and for their restarts."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from pyroclast.rules.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)
from pyroclast.rules.names import dns_label
from pyroclast.rules.podspecs import probes
from pyroclast.rules.podspecs.environment import check_environment
from pyroclast.rules.podspecs.internals import internal_form
from pyroclast.rules.podspecs.mounts import check_devices, check_mounts
from pyroclast.rules.podspecs.options import Options, check_choice, check_member, check_name
from pyroclast.rules.podspecs.requirements import check_requirements
from pyroclast.rules.podspecs.security import check_security_context
from pyroclast.rules.values import Json, items, mapping, mappings, text

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_MOST_RULES, _MOST_CODES = 20, 255


def check_restarts(container: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    """Check `restartPolicy` and `restartPolicyRules` of the container at `where`."""
    policy, rules = container.get("restartPolicy"), items(container.get("restartPolicyRules"))
    if policy is None and rules:
        errors.append(required(f"{where}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    check_member(container, "restartPolicy", _POLICIES, where, errors)
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{where}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in mappings(rules):
        own = f"{where}.restartPolicyRules[{index}]"
        if (action := text(rule.get("action"))) not in _ACTIONS:
            errors.append(unsupported(f"{own}.action", action, _ACTIONS))
        if rule.get("exitCodes") is None:
            errors.append(required(f"{own}.exitCodes", "must be specified"))
            continue
        codes = mapping(rule["exitCodes"])
        if (operator := text(codes.get("operator"))) not in {"In", "NotIn"}:
            errors.append(unsupported(f"{own}.exitCodes.operator", operator, ("In", "NotIn")))
        if (count := len(items(codes.get("values")))) > _MOST_CODES:
            errors.append(too_many(f"{own}.exitCodes.values", count, _MOST_CODES))


_TERMINATION = ("File", "FallbackToLogsOnError")
_PULL = ("Always", "IfNotPresent", "Never")
_PROBES = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


class Surroundings(NamedTuple):
    """The fields of a pod to which containers may refer.

    `volumes`: the kind of source of each valid volume. `claims`: names. `system`: None when the pod names no operating system.
    """

    volumes: Mapping[str, str]
    claims: AbstractSet[str]
    grace_seconds: int
    restart_policy: str
    host_users: bool
    system: str | None
    options: Options


def check_containers(containers: Json, path: str, errors: list[FieldError], around: Surroundings) -> set[str]:
    """Check the regular containers at `path`; return their names."""
    names: set[str] = set()
    if not containers:
        errors.append(required(path))
        return names
    for index, container in mappings(containers):
        where = f"{path}[{index}]"
        check_common(container, where, errors, around)
        _check_unique(container, where, errors, names)
        _check_probes(container, where, errors, around)
        if around.options.current:
            check_restarts(container, where, errors)
        elif container.get("restartPolicy") is not None:
            errors.append(forbidden(f"{where}.restartPolicy", "may not be set for non-init containers"))
    probes.check_host_port_conflicts(containers, path, errors)
    return names


def check_init_containers(containers: Json, path: str, errors: list[FieldError], around: Surroundings, names: set[str]) -> None:
    """Check the init containers at `path`. `names`: the names of the regular containers."""
    for index, container in mappings(containers):
        where = f"{path}[{index}]"
        check_common(container, where, errors, around)
        policy = container.get("restartPolicy")
        restarts = policy == "Always"
        if around.options.current:
            check_restarts(container, where, errors)
        elif policy is None and container.get("restartPolicyRules"):
            errors.append(required(f"{where}.restartPolicy", "must specify restartPolicy when restart rules are used"))
        elif policy is not None and not restarts:
            errors.append(unsupported(f"{where}.restartPolicy", policy, ("Always",)))
        _check_unique(container, where, errors, names)
        probes.check_host_port_conflicts([container], path, errors)
        if restarts:
            _check_probes(container, where, errors, around)
        else:
            errors += (
                forbidden(f"{where}.{key}", "may not be set for init containers without restartPolicy=Always")
                for key in _PROBES
                if container.get(key) is not None
            )
        if policies := container.get("resizePolicy"):
            if not around.options.current:
                shown = [internal_form(each, ("resourceName", "restartPolicy"), empty="") for _, each in mappings(policies)]
                errors.append(invalid(f"{where}.resizePolicy", shown, "must not be set for init containers"))
            if not restarts:
                _check_restarting_resize(container, where, errors)


def _check_restarting_resize(container: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    for index, policy in mappings(container.get("resizePolicy")):
        if policy.get("restartPolicy") == "RestartContainer":
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errors.append(invalid(f"{where}.resizePolicy[{index}].restartPolicy", "RestartContainer", detail))


def check_common(container: Mapping[str, Any], where: str, errors: list[FieldError], around: Surroundings) -> None:
    """Check the rules that containers of every kind share, at path `where`."""
    check_name(container, "name", dns_label, where, errors)
    if not container.get("image"):
        errors.append(required(f"{where}.image"))
    errors += check_choice(container, "terminationMessagePolicy", _TERMINATION, where, around.options)
    if ports := container.get("ports"):
        probes.check_ports(ports, f"{where}.ports", errors, around.options)
    check_environment(container, where, errors, around.options)
    mounts, devices = container.get("volumeMounts"), container.get("volumeDevices")
    if mounts:
        check_mounts(container, f"{where}.volumeMounts", errors, around.volumes)
    if devices:
        check_devices(container, f"{where}.volumeDevices", errors, around.volumes)
    errors += check_choice(container, "imagePullPolicy", _PULL, where, around.options)
    if resources := container.get("resources"):
        check_requirements(resources, f"{where}.resources", errors, around.claims)
    if resize := container.get("resizePolicy"):
        _check_resize(resize, f"{where}.resizePolicy", errors, around)
    if context := container.get("securityContext"):
        check_security_context(context, f"{where}.securityContext", errors, host_users=around.host_users)


def _check_unique(container: Mapping[str, Any], where: str, errors: list[FieldError], names: set[str]) -> None:
    name = text(container.get("name"))
    if name in names:
        errors.append(duplicate(f"{where}.name", name))
    elif name:
        names.add(name)


def _check_probes(container: Mapping[str, Any], where: str, errors: list[FieldError], around: Surroundings) -> None:
    if (lifecycle := container.get("lifecycle")) is not None:
        probes.check_lifecycle(lifecycle, f"{where}.lifecycle", errors, around.grace_seconds, around.options)
        if mapping(lifecycle).get("stopSignal") is not None and around.system is None:
            detail = "may not be set for containers with empty `spec.os.name`"
            errors.append(forbidden(f"{where}.lifecycle.stopSignal", detail))
    for key, check in (
        ("livenessProbe", probes.check_liveness),
        ("readinessProbe", probes.check_readiness),
        ("startupProbe", probes.check_liveness),
    ):
        if (probe := container.get(key)) is not None:
            check(mapping(probe), f"{where}.{key}", errors)


def _check_resize(policies: Json, path: str, errors: list[FieldError], around: Surroundings) -> None:
    seen: set[str] = set()
    for index, policy in mappings(policies):
        resource, restart = text(policy.get("resourceName")), text(policy.get("restartPolicy"))
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        if not resource:
            errors.append(required(path))
        elif resource not in ("cpu", "memory"):
            errors.append(unsupported(path, resource, ("cpu", "memory")))
        if not restart:
            errors.append(required(path))
        elif restart not in ("NotRequired", "RestartContainer"):
            errors.append(unsupported(path, restart, ("NotRequired", "RestartContainer")))
        if around.restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))


def check_image(container: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    """Check that the image of a pod's container neither begins nor ends with white space. Images of templates may."""
    image = text(container.get("image"))
    if image != image.strip():
        errors.append(invalid(f"{where}.image", image, "must not have leading or trailing whitespace"))


_NEVER: Final = ("ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_DETAIL: Final = "cannot be set for an Ephemeral Container"


def check_ephemeral_containers(spec: Mapping[str, Any], path: str, errors: list[FieldError], around: Surroundings) -> None:
    """Check the ephemeral containers of the pod, at `path`."""
    others = {text(each.get("name")) for field in ("containers", "initContainers") for _, each in mappings(spec.get(field))}
    seen = set(others)
    for index, container in mappings(spec.get("ephemeralContainers")):
        where = f"{path}[{index}]"
        check_common(container, where, errors, around)
        check_image(container, where, errors)
        name, target = text(container.get("name")), text(container.get("targetContainerName"))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{where}.targetContainerName", target))
        errors += [forbidden(f"{where}.{field}", _DETAIL) for field in _NEVER if container.get(field)]
        for at, mount in mappings(container.get("volumeMounts")):
            errors += [
                forbidden(f"{where}.volumeMounts[{at}].{field}", _DETAIL)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
