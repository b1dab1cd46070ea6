"""Validation of pods and pod templates, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, not_found, required
from pyroclast_standalone.apiserver.documents.metadata import check_annotation_names, check_labels

from .checks import check_fields, choice, named, optional_choice
from .container_checks import (
    PodParts,
    check_containers,
    check_ephemeral_containers,
    check_images,
    check_init_containers,
)
from .dns_checks import check_dns, check_host_aliases
from .internals import internal_form
from .placement import check_affinity, check_spread, check_tolerations
from .pod_annotations import check_annotations, check_profiles
from .resource_checks import check_resources, check_spec_resources
from .security import check_host_name, check_host_users, check_os, check_pod_context
from .volumes import check_volumes

__all__ = ["check_new_pod", "check_pod", "check_pod_spec", "check_template"]

_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_CLAIM_NAMES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_MAX_INT32: Final = 2**31 - 1
_SAME_PORT: Final = "must match `containerPort` when `hostNetwork` is true"


def _check_gates(gates: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += named(name, names.label_key, f"{path}[{index}]")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def _check_claims(claims: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        own = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            errors.append(required(f"{own}.name"))
        elif name in seen:
            errors.append(duplicate(f"{own}.name", name))
        else:
            errors += named(name, names.dns_label, f"{own}.name")
            seen.add(name)
        given = [field for field in _CLAIM_NAMES if claim.get(field) is not None]
        shown = {**internal_form(claim, ("name", *_CLAIM_NAMES)), "Name": name}
        if len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(own, shown, text))
        if not given:
            errors.append(invalid(own, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        errors += [error for field in given for error in named(claim[field], names.dns_subdomain, f"{own}.{field}")]
    return errors


def _check_subdomain(name: str, path: str) -> list[FieldError]:
    return named(name, names.dns_subdomain, path)


def _check_label(name: str, path: str) -> list[FieldError]:
    return named(name, names.dns_label, path)


def _check_readiness(gates: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(gates):
        errors += named(gate.get("conditionType", ""), names.label_key, f"{path}[{index}].conditionType")
    return errors


_GATES: Final = (
    ("readinessGates", _check_readiness),
    ("schedulingGates", _check_gates),
    ("topologySpreadConstraints", check_spread),
)
_NAMES: Final = (("serviceAccountName", _check_subdomain), ("nodeName", _check_subdomain))
_FURTHER: Final = (
    ("hostname", _check_label),
    ("subdomain", _check_label),
    ("tolerations", check_tolerations),
    ("hostAliases", check_host_aliases),
    ("priorityClassName", _check_subdomain),
    ("runtimeClassName", _check_subdomain),
)
"""Fields that are checked by themselves, in the order in which the API tells of them."""


def _check_names(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = check_fields(spec, _NAMES, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive"))
    errors += check_fields(spec, _FURTHER, path)
    errors += optional_choice(spec, "preemptionPolicy", _PREEMPTION, path)
    if overhead := spec.get("overhead"):
        errors += check_resources({"limits": overhead}, f"{path}.overhead")
    errors += check_os(spec, path)
    return errors


def _check_host_ports(spec: Mapping[str, Any], path: str, *, of_pod: bool) -> list[FieldError]:
    return [
        invalid(f"{path}.containers[{index}].ports[{at}].hostPort", port.get("hostPort", 0), _SAME_PORT)
        for index, container in enumerate(spec.get("containers") or ())
        for at, port in enumerate(container.get("ports") or ())
        if (of_pod or port.get("hostPort")) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]


def _check_files(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """Variables from files need a volume that the pod has for itself."""
    errors: list[FieldError] = []
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for at, variable in enumerate(container.get("env") or ()):
                source = variable.get("valueFrom")
                if source and "fileKeyRef" in source:
                    own = f"{path}.{field}[{index}].env[{at}].valueFrom.fileKeyRef.volumeName"
                    errors += _check_file(source["fileKeyRef"].get("volumeName", ""), spec, own)
    return errors


def _check_file(name: str, spec: Mapping[str, Any], path: str) -> list[FieldError]:
    volume = {each.get("name", ""): each for each in spec.get("volumes") or ()}.get(name)
    if volume is None:
        return [not_found(path, name)]
    return [] if "emptyDir" in volume else [invalid(path, name, "referenced volume must be of type emptyDir")]


def check_pod_spec(spec: Mapping[str, Any], path: str, *, pod_name: str | None = None) -> list[FieldError]:
    """What is wrong with the spec of a pod, wherever it stands; only that of a pod itself has a `pod_name`."""
    volumes, errors = check_volumes(spec.get("volumes") or [], f"{path}.volumes", pod_name=pod_name)
    containers, claims = spec.get("containers") or [], spec.get("resourceClaims") or ()
    parts = PodParts(
        volumes,
        {name for each in claims if (name := each.get("name"))} if claims else (),
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", ""),
        spec.get("hostUsers", True),
    )
    if claims:
        errors += _check_claims(claims, f"{path}.resourceClaims")
    errors += check_containers(containers, parts, f"{path}.containers")
    if first := spec.get("initContainers"):
        regular = {container.get("name", "") for container in containers}
        errors += check_init_containers(first, regular, parts, f"{path}.initContainers")
    if spec.get("ephemeralContainers"):
        errors += check_ephemeral_containers(spec, parts, f"{path}.ephemeralContainers")
    errors += check_spec_resources(spec, path, parts.claims)
    if spec.get("hostNetwork"):
        errors += _check_host_ports(spec, path, of_pod=pod_name is not None)
    errors += choice(spec, "restartPolicy", _RESTART, path)
    errors += choice(spec, "dnsPolicy", _DNS, path)
    if labels := spec.get("nodeSelector"):
        errors += check_labels(labels, f"{path}.nodeSelector")
    errors += check_pod_context(spec, path)
    if affinity := spec.get("affinity"):
        errors += check_affinity(affinity, f"{path}.affinity")
    errors += check_dns(spec, path)
    errors += check_fields(spec, _GATES, path)
    errors += check_host_users(spec, path)
    errors += check_host_name(spec, path)
    errors += _check_names(spec, path)
    errors += _check_files(spec, path)
    return errors


def check_pod(pod: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a pod besides its metadata."""
    spec, metadata = pod["spec"], pod["metadata"]
    errors: list[FieldError] = []
    if annotations := metadata.get("annotations"):
        errors += check_annotations(annotations, spec, "metadata.annotations")
    errors += check_pod_spec(spec, "spec", pod_name=metadata.get("name") or "")
    if not spec.get("serviceAccountName"):
        errors += [
            forbidden(
                f"spec.volumes[{index}].projected.sources[{at}].serviceAccountToken",
                "must not be specified when serviceAccountName is not set",
            )
            for index, volume in enumerate(spec.get("volumes") or ())
            for at, source in enumerate((volume.get("projected") or {}).get("sources") or ())
            if "serviceAccountToken" in source
        ]
    errors += check_images(spec.get("containers"), "spec.containers")
    errors += check_images(spec.get("initContainers"), "spec.initContainers")
    return errors


def check_new_pod(pod: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a pod that is being created."""
    errors = check_pod(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    if annotations := pod["metadata"].get("annotations"):
        errors += check_profiles(annotations, spec, "spec")
    return errors


def check_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a PodTemplateSpec."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    annotations, own = metadata.get("annotations") or {}, f"{path}.annotations"
    errors = check_labels(metadata.get("labels"), f"{path}.labels")
    errors += [*check_annotation_names(annotations, own), *check_annotations(annotations, spec, own)]
    errors += [*check_pod_spec(spec, f"{path}.spec"), *check_profiles(annotations, spec, f"{path}.spec")]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors
