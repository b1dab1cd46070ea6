"""Rules for a pod, its spec and its template as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, invalid_for, required, too_long
from pyroclast.rules.names import NameRule, dns_label, dns_subdomain
from pyroclast.rules.podspecs import containers, platform
from pyroclast.rules.podspecs.affinity import check_affinity
from pyroclast.rules.podspecs.annotations import check_annotation_names, check_annotations, check_files, check_profiles
from pyroclast.rules.podspecs.options import ADMISSION, SERVER, Options, check_choice, check_labels, check_member
from pyroclast.rules.podspecs.requirements import check_pod_resources, check_requirements
from pyroclast.rules.podspecs.scheduling import check_gates, check_spread, check_tolerations
from pyroclast.rules.podspecs.security import check_host_ports, check_pod_security
from pyroclast.rules.podspecs.volumes import check_volumes
from pyroclast.rules.values import Json, integer, items, mapping, mappings, text

LONGEST_HOST_NAME = 64
DEFAULT_GRACE_SECONDS = 30
DEADLINE_RANGE = "must be between 1 and 2147483647, inclusive"

_RESTART = ("Always", "OnFailure", "Never")
_PREEMPTION = ("PreemptLowerPriority", "Never")


def check_pod_spec(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    """Check the spec of a pod at `path`."""
    volumes = check_volumes(spec.get("volumes"), f"{path}.volumes", errors, options)
    grace = spec.get("terminationGracePeriodSeconds")
    around = containers.Surroundings(
        volumes=volumes,
        claims=_check_claims(spec.get("resourceClaims"), f"{path}.resourceClaims", errors),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else integer(grace),
        restart_policy=text(spec.get("restartPolicy")),
        host_users=spec.get("hostUsers") is not False,
        system=text(mapping(spec["os"]).get("name")) if spec.get("os") is not None else None,
        options=options,
    )
    names = containers.check_containers(spec.get("containers"), f"{path}.containers", errors, around)
    if spec.get("initContainers"):
        containers.check_init_containers(spec["initContainers"], f"{path}.initContainers", errors, around, names)
    if options.current and spec.get("ephemeralContainers"):
        containers.check_ephemeral_containers(spec, f"{path}.ephemeralContainers", errors, around)
    if options.pod_level_resources and spec.get("resources"):
        check_pod_resources(spec, path, errors, around.claims)
    check_host_ports(spec, path, errors, options)
    errors += check_choice(spec, "restartPolicy", _RESTART, path, options)
    errors += check_choice(spec, "dnsPolicy", platform.DNS_POLICIES, path, options)
    if spec.get("nodeSelector"):
        check_labels(mapping(spec["nodeSelector"]), f"{path}.nodeSelector", errors)
    check_pod_security(spec, path, errors, options)
    if spec.get("affinity"):
        check_affinity(spec["affinity"], f"{path}.affinity", errors)
    platform.check_dns(spec, path, errors, options)
    check_gates(spec, path, errors)
    if spec.get("topologySpreadConstraints"):
        check_spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints", errors, options)
    platform.check_host_process(spec, path, errors)
    if spec.get("hostUsers") is False:
        platform.check_host_users(spec, path, errors)
    _check_rest(spec, path, errors, options)
    check_files(spec, path, errors)


def _check_name(spec: Mapping[str, Any], key: str, rule: NameRule, path: str, errors: list[FieldError]) -> None:
    if (name := spec.get(key)) and (problems := rule(text(name))):
        errors += invalid_for(f"{path}.{key}", name, problems)


def _check_rest(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    if account := text(spec.get("serviceAccountName")) or text(spec.get("serviceAccount")):
        errors += invalid_for(f"{path}.serviceAccountName", account, dns_subdomain(account))
    _check_name(spec, "nodeName", dns_subdomain, path, errors)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= integer(deadline) < 2**31:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, DEADLINE_RANGE))
    _check_name(spec, "hostname", dns_label, path, errors)
    _check_name(spec, "subdomain", dns_label, path, errors)
    if spec.get("tolerations"):
        check_tolerations(spec["tolerations"], f"{path}.tolerations", errors)
    if spec.get("hostAliases"):
        platform.check_aliases(spec["hostAliases"], f"{path}.hostAliases", errors)
    _check_name(spec, "priorityClassName", dns_subdomain, path, errors)
    if (runtime := spec.get("runtimeClassName")) is not None:
        errors += invalid_for(f"{path}.runtimeClassName", runtime, dns_subdomain(text(runtime)))
    if spec.get("preemptionPolicy") == "":
        errors.append(required(f"{path}.preemptionPolicy"))
    else:
        check_member(spec, "preemptionPolicy", _PREEMPTION, path, errors)
    if overhead := mapping(spec.get("overhead")):
        check_requirements({"limits": overhead}, f"{path}.overhead", errors, frozenset())
    if spec.get("os") is not None:
        platform.check_platform(spec, path, errors)
    if options.current and spec.get("hostnameOverride") is not None:
        _check_host_name(spec, f"{path}.hostnameOverride", errors)


def _check_host_name(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    name = text(spec["hostnameOverride"])
    errors += [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name) > LONGEST_HOST_NAME:
        errors.append(too_long(path, LONGEST_HOST_NAME))
    errors += invalid_for(path, name, dns_subdomain(name))


def _check_claims(claims: Json, path: str, errors: list[FieldError]) -> frozenset[str]:
    names: set[str] = set()
    for index, claim in mappings(claims):
        where, name = f"{path}[{index}]", text(claim.get("name"))
        if not name:
            errors.append(required(f"{where}.name"))
        elif name in names:
            errors.append(duplicate(f"{where}.name", name))
        else:
            errors += invalid_for(f"{where}.name", name, dns_label(name))
            names.add(name)
        by_name, by_template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if by_name is not None and by_template is not None:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(where, _shown(claim), detail))
        elif by_name is None and by_template is None:
            errors.append(invalid(where, _shown(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if (value := claim.get(key)) is not None:
                errors += invalid_for(f"{where}.{key}", value, dns_subdomain(text(value)))
    return frozenset(names)


def _shown(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {key[0].upper() + key[1:]: claim.get(key) for key in ("name", "resourceClaimName", "resourceClaimTemplateName")}


def check_pod(pod: Mapping[str, Any]) -> list[FieldError]:
    """Return the faults of a pod, except those of its metadata."""
    spec, metadata = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    errors: list[FieldError] = []
    if annotations := mapping(metadata.get("annotations")):
        check_annotations(annotations, spec, "metadata.annotations", errors)
    check_pod_spec(spec, "spec", errors, replace(SERVER, pod_name=text(metadata.get("name"))))
    if not spec.get("serviceAccountName"):
        detail = "must not be specified when serviceAccountName is not set"
        errors += [
            forbidden(f"spec.volumes[{index}].projected.sources[{at}].serviceAccountToken", detail)
            for index, volume in mappings(spec.get("volumes"))
            for at, source in mappings(mapping(volume.get("projected")).get("sources"))
            if source.get("serviceAccountToken") is not None
        ]
    for field in ("containers", "initContainers"):
        for index, container in mappings(spec.get(field)):
            containers.check_image(container, f"spec.{field}[{index}]", errors)
    return errors


def check_new_pod(pod: Mapping[str, Any]) -> list[FieldError]:
    """Return the faults of a pod that is being created."""
    errors = check_pod(pod)
    spec = mapping(pod.get("spec"))
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    if annotations := mapping(mapping(pod.get("metadata")).get("annotations")):
        check_profiles(annotations, spec, "spec", errors)
    return errors


REMEMBERED = 256
"""The most templates whose errors are cached. Jobs are created from few templates again and again, and tasks of a Job are
similar.
"""

REMEMBERED_BYTES = 16 * 1024
"""The largest template, in bytes, whose errors are cached, so that the cache stays below 4 MiB."""

_WITHOUT_POD_RESOURCES = replace(ADMISSION, pod_level_resources=False)
_remembered: dict[tuple[bytes, bool], tuple[FieldError, ...]] = {}
"""Errors by a template's JSON, and by whether the cluster has pod-level resources."""


def check_template(template: Json, *, task_name: str, pod_level_resources: bool = True) -> list[FieldError]:
    """Return all faults of the template of task `task_name`. `pod_level_resources`: whether the cluster supports them."""
    problems = dns_subdomain(task_name)
    errors = invalid_for("metadata.name", task_name, problems) if problems else []
    try:
        raw = orjson.dumps(template)
    except orjson.JSONEncodeError:  # nested deeper than any template
        raw = b""
    if not 0 < len(raw) <= REMEMBERED_BYTES:
        return [*errors, *_check(template, pod_level_resources)]
    known = _remembered.get((raw, pod_level_resources))
    if known is None:
        if len(_remembered) >= REMEMBERED:
            _remembered.clear()
        known = _remembered[raw, pod_level_resources] = _check(template, pod_level_resources)
    return [*errors, *known]


def _check(template: Json, pod_level_resources: bool) -> tuple[FieldError, ...]:
    errors: list[FieldError] = []
    given: Mapping[str, Any] = mapping(template)
    metadata, spec = mapping(given.get("metadata")), mapping(given.get("spec"))
    if labels := mapping(metadata.get("labels")):
        check_labels(labels, "template.labels", errors)
    if annotations := mapping(metadata.get("annotations")):
        check_annotation_names(annotations, "template.annotations", errors)
        check_annotations(annotations, spec, "template.annotations", errors)
        check_profiles(annotations, spec, "template.spec", errors)
    check_pod_spec(spec, "template.spec", errors, ADMISSION if pod_level_resources else _WITHOUT_POD_RESOURCES)
    if items(spec.get("ephemeralContainers")):
        errors.append(forbidden("template.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return tuple(errors)
