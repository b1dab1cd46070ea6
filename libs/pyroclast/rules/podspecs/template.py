"""Rules for a whole pod template: its metadata, then its spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from pyroclast.rules.errors import FieldError, forbidden, invalid_for
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.podspecs.annotations import check_annotation_names, check_annotations, check_profiles
from pyroclast.rules.podspecs.labels import check_labels
from pyroclast.rules.podspecs.options import ADMISSION
from pyroclast.rules.podspecs.spec import check_pod_spec
from pyroclast.rules.values import Json, items, mapping

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
