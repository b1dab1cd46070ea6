"""A pod template as a whole: its metadata, then its spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.podtemplates.annotations import check_annotations
from pyroclast.rules.podtemplates.labels import check_labels
from pyroclast.rules.podtemplates.spec import check_pod_spec
from pyroclast.rules.values import Json, items, mapping

__all__ = ["check_template"]


def check_template(template: Json, *, task_name: str, pod_level_resources: bool = True) -> list[FieldError]:
    """Everything wrong with the template of the task `task_name`; `pod_level_resources` as the cluster has it."""
    errors: list[FieldError] = []
    given: Mapping[str, Any] = mapping(template)
    metadata, spec = mapping(given.get("metadata")), mapping(given.get("spec"))
    errors += (invalid("metadata.name", task_name, problem) for problem in dns_subdomain(task_name))
    if labels := mapping(metadata.get("labels")):
        check_labels(labels, "template.labels", errors)
    if annotations := mapping(metadata.get("annotations")):
        check_annotations(annotations, spec, "template.annotations", errors)
    check_pod_spec(spec, "template.spec", errors, pod_level_resources=pod_level_resources)
    if items(spec.get("ephemeralContainers")):
        errors.append(forbidden("template.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors
