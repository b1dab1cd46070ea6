"""Validation of pods and pod templates, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from pyroclast_standalone.apiserver.documents.metadata import check_labels

from .container_checks import (
    check_containers,
    check_ephemeral_containers,
    check_ids,
    check_images,
    check_init_containers,
    check_label,
)

__all__ = ["check_new_pod", "check_pod", "check_pod_spec", "check_selector", "check_template"]

_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_INT32: Final = 2**31 - 1
_SAME_PORT: Final = "must match `containerPort` when `hostNetwork` is true"
_SPREAD: Final = ("DoNotSchedule", "ScheduleAnyway")


def check_selector(selector: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a LabelSelector."""
    errors = check_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        own = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in {"In", "NotIn"} and not values:
            errors.append(required(f"{own}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in {"Exists", "DoesNotExist"} and values:
            errors.append(forbidden(f"{own}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            errors.append(invalid(f"{own}.operator", operator, "not a valid selector operator"))
        key = expression.get("key", "")
        errors += [invalid(f"{own}.key", key, sentence) for sentence in names.label_key(key)]
        for at, value in enumerate(values):
            errors += [invalid(f"{own}.values[{at}]", value, sentence) for sentence in names.label_value(value)]
    return errors


def _check_volume_source(volume: Mapping[str, Any], path: str) -> list[FieldError]:
    kinds = [kind for kind in volume if kind != "name"]
    if not kinds:
        return [required(path, "must specify a volume type")]
    errors = [forbidden(f"{path}.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]]
    kind = kinds[0]
    source = volume[kind]
    match kind:
        case "secret" if not source.get("secretName"):
            errors.append(required(f"{path}.secret.secretName"))
        case "configMap" if not source.get("name"):
            errors.append(required(f"{path}.configMap.name"))
        case "persistentVolumeClaim" if not source.get("claimName"):
            errors.append(required(f"{path}.persistentVolumeClaim.claimName"))
        case "hostPath" if not source.get("path"):
            errors.append(required(f"{path}.hostPath.path"))
    if kind in {"secret", "configMap", "projected", "downwardAPI"}:
        mode = source.get("defaultMode", 0)
        if not 0 <= mode <= 0o777:
            text = "must be a number between 0 and 0777 (octal), both inclusive"
            errors.append(invalid(f"{path}.{kind}.defaultMode", mode, text))
    return errors


def _check_volumes(volumes: list[dict[str, Any]], path: str) -> tuple[set[str], list[FieldError]]:
    """Names of the volumes that are right, and what is wrong with the others."""
    errors: list[FieldError] = []
    right: set[str] = set()
    for index, volume in enumerate(volumes):
        own = f"{path}[{index}]"
        name = volume.get("name", "")
        wrong = _check_volume_source(volume, own)
        wrong += check_label(name, f"{own}.name") if name else [required(f"{own}.name")]
        if name in right:
            wrong.append(duplicate(f"{own}.name", name))
        if wrong:
            errors += wrong
        else:
            right.add(name)
    return right, errors


def _check_tolerations(tolerations: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        own = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            errors += [invalid(f"{own}.key", key, sentence) for sentence in names.label_key(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{own}.operator", operator, text))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            errors.append(invalid(f"{own}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
        if operator in {"", "Equal"}:
            if wrong := names.label_value(value):
                errors.append(invalid(f"{own}.operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{own}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            errors.append(unsupported(f"{own}.operator", operator, ["Equal", "Exists"]))
        if effect and effect not in _EFFECTS:
            errors.append(unsupported(f"{own}.effect", effect, _EFFECTS))
    return errors


def _check_node_term(term: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        own = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in {"In", "NotIn"}:
            if not values:
                errors.append(required(f"{own}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{own}.values", text))
        elif operator in {"Gt", "Lt"}:
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(required(f"{own}.values", text))
        else:
            errors.append(invalid(f"{own}.operator", operator, "not a valid selector operator"))
        key = expression.get("key", "")
        errors += [invalid(f"{own}.key", key, sentence) for sentence in names.label_key(key)]
    return errors


def _check_pod_term(term: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "labelSelector" in term:
        errors += check_selector(term["labelSelector"], f"{path}.labelSelector")
    if not (key := term.get("topologyKey", "")):
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    errors += [invalid(f"{path}.topologyKey", key, sentence) for sentence in names.label_key(key)]
    return errors


def _check_affinity(affinity: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if node := affinity.get("nodeAffinity"):
        own = f"{path}.nodeAffinity"
        if (must := node.get("requiredDuringSchedulingIgnoredDuringExecution")) is not None:
            terms = must.get("nodeSelectorTerms") or []
            inner = f"{own}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            if not terms:
                errors.append(required(inner, "must have at least one node selector term"))
            for index, term in enumerate(terms):
                errors += _check_node_term(term, f"{inner}[{index}]")
        for index, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            inner = f"{own}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            errors += _check_weight(preferred, inner)
            errors += _check_node_term(preferred.get("preference") or {}, f"{inner}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        own = f"{path}.{kind}"
        rules = affinity.get(kind) or {}
        for index, term in enumerate(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            errors += _check_pod_term(term, f"{own}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
        for index, weighted in enumerate(rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            inner = f"{own}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            errors += _check_weight(weighted, inner)
            errors += _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{inner}.podAffinityTerm")
    return errors


def _check_weight(term: Mapping[str, Any], path: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _check_spread(constraints: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        own = f"{path}[{index}]"
        if (skew := constraint.get("maxSkew", 0)) <= 0:
            errors.append(invalid(f"{own}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            errors.append(required(f"{own}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable", "")
        if action not in _SPREAD:
            errors.append(unsupported(f"{own}.whenUnsatisfiable", action, _SPREAD))
    return errors


def _check_gates(gates: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += [invalid(f"{path}[{index}]", name, sentence) for sentence in names.label_key(name)]
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def _check_choice(spec: Mapping[str, Any], field: str, supported: tuple[str, ...], path: str) -> list[FieldError]:
    value = spec.get(field, "")
    if not value:
        return [required(f"{path}.{field}")]
    return [] if value in supported else [unsupported(f"{path}.{field}", value, supported)]


def _check_names(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName"):
        if value := spec.get(field):
            errors += [invalid(f"{path}.{field}", value, sentence) for sentence in names.dns_subdomain(value)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive"))
    for field in ("hostname", "subdomain"):
        if value := spec.get(field):
            errors += check_label(value, f"{path}.{field}")
    if tolerations := spec.get("tolerations"):
        errors += _check_tolerations(tolerations, f"{path}.tolerations")
    for field in ("priorityClassName", "runtimeClassName"):
        if value := spec.get(field):
            errors += [invalid(f"{path}.{field}", value, sentence) for sentence in names.dns_subdomain(value)]
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in {"Never", "PreemptLowerPriority"}:
        errors.append(unsupported(f"{path}.preemptionPolicy", policy, ["Never", "PreemptLowerPriority"]))
    return errors


def _check_host_ports(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.{field}[{index}].ports[{at}].hostPort", port["hostPort"], _SAME_PORT)
        for field in ("containers", "initContainers")
        for index, container in enumerate(spec.get(field) or ())
        for at, port in enumerate(container.get("ports") or ())
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort")
    ]


def check_pod_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the spec of a pod, wherever it stands."""
    volumes, errors = _check_volumes(spec.get("volumes") or [], f"{path}.volumes")
    containers = spec.get("containers") or []
    errors += check_containers(containers, volumes, f"{path}.containers")
    if initial := spec.get("initContainers"):
        regular = {container.get("name", "") for container in containers}
        errors += check_init_containers(initial, regular, volumes, f"{path}.initContainers")
    if guests := spec.get("ephemeralContainers"):
        others = {container.get("name", "") for container in [*containers, *(spec.get("initContainers") or ())]}
        errors += check_ephemeral_containers(guests, others, volumes, f"{path}.ephemeralContainers")
    if spec.get("hostNetwork"):
        errors += _check_host_ports(spec, path)
    errors += _check_choice(spec, "restartPolicy", _RESTART, path)
    errors += _check_choice(spec, "dnsPolicy", _DNS, path)
    if selector := spec.get("nodeSelector"):
        errors += check_labels(selector, f"{path}.nodeSelector")
    errors += check_ids(spec.get("securityContext"), f"{path}.securityContext")
    if affinity := spec.get("affinity"):
        errors += _check_affinity(affinity, f"{path}.affinity")
    if gates := spec.get("schedulingGates"):
        errors += _check_gates(gates, f"{path}.schedulingGates")
    if constraints := spec.get("topologySpreadConstraints"):
        errors += _check_spread(constraints, f"{path}.topologySpreadConstraints")
    return [*errors, *_check_names(spec, path)]


def check_pod(pod: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a pod besides its metadata."""
    spec = pod["spec"]
    errors = check_pod_spec(spec, "spec")
    errors += check_images(spec.get("containers"), "spec.containers")
    errors += check_images(spec.get("initContainers"), "spec.initContainers")
    return errors


def check_new_pod(pod: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a pod that is being created."""
    errors = check_pod(pod)
    spec = pod["spec"]
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    return errors


def check_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a PodTemplateSpec."""
    metadata = template.get("metadata") or {}
    errors = check_labels(metadata.get("labels"), f"{path}.labels")
    errors += check_pod_spec(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors
