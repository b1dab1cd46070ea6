"""Rules for a whole pod, like those of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden
from pyroclast.rules.podspecs.annotations import check_annotations, check_profiles
from pyroclast.rules.podspecs.containers import check_image
from pyroclast.rules.podspecs.options import SERVER
from pyroclast.rules.podspecs.spec import check_pod_spec
from pyroclast.rules.values import mapping, mappings, text


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
            check_image(container, f"spec.{field}[{index}]", errors)
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
