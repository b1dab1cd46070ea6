"""Validation of containers: what users get wrong most, in the API's words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)

__all__ = [
    "check_containers",
    "check_ephemeral_containers",
    "check_ids",
    "check_images",
    "check_init_containers",
    "check_label",
    "check_resources",
]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_GUESTS: Final = ("ports", "resources", *_PROBES, "lifecycle", "resizePolicy", "restartPolicy")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_CONTAINER_RESOURCES: Final = {"cpu", "memory", "ephemeral-storage"}
_STANDARD_RESOURCES: Final = {
    *_CONTAINER_RESOURCES,
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "services.nodeports",
    "services.loadbalancers",
}


def check_label(value: str, path: str) -> list[FieldError]:
    """What is wrong with `value` as a DNS label."""
    return [invalid(path, value, sentence) for sentence in names.dns_label(value)]


def _choice(value: str | None, supported: Collection[str], path: str) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in supported else [unsupported(path, value, list(supported))]


def _check_ports(ports: list[dict[str, Any]], path: str) -> list[FieldError]:
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
        number = port.get("containerPort", 0)
        if number == 0:
            errors.append(required(f"{own}.containerPort"))
        for field, value in (("containerPort", number), ("hostPort", port.get("hostPort", 0))):
            if value and not 1 <= value <= 65535:
                errors.append(invalid(f"{own}.{field}", value, "must be between 1 and 65535, inclusive"))
        errors += _choice(port.get("protocol"), _PROTOCOLS, f"{own}.protocol")
    return errors


def _check_source(variable: Mapping[str, Any], path: str) -> list[FieldError]:
    source = variable.get("valueFrom")
    if source is None:
        return []
    errors: list[FieldError] = []
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(kind)) is not None:
            name = reference.get("name", "")
            errors += [invalid(f"{path}.{kind}.name", name, sentence) for sentence in names.dns_subdomain(name)]
            key = reference.get("key", "")
            if not key:
                errors.append(required(f"{path}.{kind}.key"))
            else:
                errors += [invalid(f"{path}.{kind}.key", key, sentence) for sentence in names.config_map_key(key)]
    if (reference := source.get("fieldRef")) is not None and not reference.get("fieldPath"):
        errors.append(required(f"{path}.fieldRef.fieldPath"))
    count = sum(name in source for name in ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"))
    if count == 0:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", text))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _check_env(variables: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        own = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{own}.name"))
        else:
            errors += [invalid(f"{own}.name", name, sentence) for sentence in names.env_var_name(name)]
        if "valueFrom" in variable:
            errors += _check_source(variable, f"{own}.valueFrom")
    return errors


def _check_mounts(mounts: list[dict[str, Any]], volumes: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        own = f"{path}[{index}]"
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{own}.name"))
        if name not in volumes:
            errors.append(not_found(f"{own}.name", name))
        if not where:
            errors.append(required(f"{own}.mountPath"))
        if where in seen:
            errors.append(invalid(f"{own}.mountPath", where, "must be unique"))
        seen.add(where)
        sub_path = mount.get("subPath", "")
        if sub_path.startswith("/"):
            errors.append(invalid(f"{path}.subPath", sub_path, "must be a relative path"))
        if ".." in sub_path.split("/"):
            errors.append(invalid(f"{path}.subPath", sub_path, "must not contain '..'"))
        if sub_path and mount.get("subPathExpr"):
            errors.append(invalid(f"{own}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"))
    return errors


def _check_resource_name(name: str, path: str) -> list[FieldError]:
    errors = [invalid(path, name, sentence) for sentence in names.label_key(name)]
    if errors:
        return errors
    if "/" in name:
        domain = name.partition("/")[0]
        if domain.endswith("kubernetes.io") or not name.startswith("requests."):
            return []
        return [invalid(path, name, "doesn't follow extended resource name standard")]
    if name in _CONTAINER_RESOURCES or name.startswith("hugepages-"):
        return []
    if name not in _STANDARD_RESOURCES:
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return [*errors, invalid(path, name, "must be a standard resource for containers")]


def _overcommits(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith("hugepages-")


def check_resources(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the requests and limits of a container."""
    errors: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            own = f"{path}.{field}"
            errors += _check_resource_name(name, f"{own}[{name}]")
            errors += _check_amount(name, amount, f"{own}[{name}]")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not _overcommits(name):
                errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif limit != amount:
            more = quantity.parse(amount) > quantity.parse(limit)
            if more and _overcommits(name):
                errors.append(invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}"))
            elif not _overcommits(name):
                errors.append(invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
    return errors


def _check_amount(name: str, amount: str, path: str) -> list[FieldError]:
    value = quantity.parse(amount)
    if value < quantity.parse("0"):
        return [invalid(path, amount, "must be greater than or equal to 0")]
    if not _overcommits(name) and value.millis % 1000:
        return [invalid(path, amount, "must be an integer")]
    return []


def _check_handler(probe: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [name for name in _HANDLERS if name in probe]
    errors += [forbidden(f"{path}.{extra}", "may not specify more than 1 handler type") for extra in given[1:]]
    if not given:
        return [required(path, "must specify a handler type")]
    kind = given[0]
    action = probe[kind]
    if kind == "exec" and not action.get("command"):
        errors.append(required(f"{path}.exec.command"))
    if kind in {"httpGet", "tcpSocket", "grpc"}:
        errors += _check_probe_port(action.get("port"), f"{path}.{kind}.port")
    return errors


def _check_probe_port(port: int | str | None, path: str) -> list[FieldError]:
    if isinstance(port, str):
        return [invalid(path, port, sentence) for sentence in names.port_name(port)]
    if port is None or not 1 <= port <= 65535:
        return [invalid(path, port or 0, "must be between 1 and 65535, inclusive")]
    return []


def _check_probe(container: Mapping[str, Any], name: str, path: str) -> list[FieldError]:
    probe = container.get(name)
    if probe is None:
        return []
    own = f"{path}.{name}"
    errors = _check_handler(probe, own)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if (value := probe.get(field, 0)) < 0:
            errors.append(invalid(f"{own}.{field}", value, "must be greater than or equal to 0"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{own}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.append(invalid(f"{own}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def _check_common(container: Mapping[str, Any], volumes: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += check_label(name, f"{path}.name")
    if not image:
        errors.append(required(f"{path}.image"))
    errors += _choice(container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    if "ports" in container:
        errors += _check_ports(container["ports"], f"{path}.ports")
    if "env" in container:
        errors += _check_env(container["env"], f"{path}.env")
    if "volumeMounts" in container:
        errors += _check_mounts(container["volumeMounts"], volumes, f"{path}.volumeMounts")
    errors += _choice(container.get("imagePullPolicy"), _PULL_POLICIES, f"{path}.imagePullPolicy")
    if resources := container.get("resources"):
        errors += check_resources(resources, f"{path}.resources")
    return [*errors, *check_ids(container.get("securityContext"), f"{path}.securityContext")]


def check_containers(containers: list[dict[str, Any]] | None, volumes: Collection[str], path: str) -> list[FieldError]:
    """What is wrong with the regular containers of a pod; `volumes` are the names of its volumes."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        own = f"{path}[{index}]"
        errors += _check_common(container, volumes, own)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        for probe in _PROBES:
            errors += _check_probe(container, probe, own)
    errors += _host_port_conflicts(containers, path)
    return errors


def check_ids(context: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """Ids of users and groups in a security context."""
    return [
        invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")
        for field in ("runAsUser", "runAsGroup", "fsGroup")
        if (value := (context or {}).get(field)) is not None and not 0 <= value < 2**31
    ]


def check_images(containers: list[dict[str, Any]] | None, path: str) -> list[FieldError]:
    """Images of pods, in contrast to those of templates, may not be padded."""
    return [
        invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")
        for index, container in enumerate(containers or ())
        if (image := container.get("image", "")) != image.strip()
    ]


def _host_port_conflicts(containers: list[dict[str, Any]], path: str) -> list[FieldError]:
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
    containers: list[dict[str, Any]], regular: Collection[str], volumes: Collection[str], path: str
) -> list[FieldError]:
    """What is wrong with the init containers of a pod; `regular` are the names of the others."""
    errors: list[FieldError] = []
    seen = set(regular)
    for index, container in enumerate(containers):
        own = f"{path}[{index}]"
        errors += _check_common(container, volumes, own)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in {"Always", "Never", "OnFailure"}:
            errors.append(unsupported(f"{own}.restartPolicy", policy, ["Always", "Never", "OnFailure"]))
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        errors += _host_port_conflicts([container], path)
        for field in ("lifecycle", *_PROBES):
            if field not in container:
                continue
            if policy != "Always":
                errors.append(forbidden(f"{own}.{field}", "may not be set for init containers without restartPolicy=Always"))
            elif field != "lifecycle":
                errors += _check_probe(container, field, own)
    return errors


def check_ephemeral_containers(
    containers: list[dict[str, Any]], others: Collection[str], volumes: Collection[str], path: str
) -> list[FieldError]:
    """What is wrong with the ephemeral containers of a pod; `others` are the names of its own containers."""
    errors: list[FieldError] = []
    seen = set(others)
    for index, container in enumerate(containers):
        own, name, target = f"{path}[{index}]", container.get("name", ""), container.get("targetContainerName", "")
        errors += _check_common(container, volumes, own)
        errors += check_images([container], own)
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{own}.targetContainerName", target))
        text = "cannot be set for an Ephemeral Container"
        errors += [forbidden(f"{own}.{field}", text) for field in _NOT_FOR_GUESTS if container.get(field)]
        for at, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden(f"{own}.volumeMounts[{at}].{field}", text) for field in ("subPath", "subPathExpr") if mount.get(field)
            ]
    return errors
