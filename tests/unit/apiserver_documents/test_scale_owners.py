"""Who owns replicas, as the Scale of an object tells it, and back."""

from __future__ import annotations

from typing import Any

from pyroclast_standalone.apiserver.documents.scale_owners import of_object, of_scale

REPLICAS = {"f:spec": {"f:replicas": {}}}
SOON = "2026-01-01T00:00:00Z"


def _entry(manager: str, fields: dict[str, Any], *, operation: str = "Update", version: str = "apps/v1") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": SOON,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


BOTH = {"f:spec": {"f:replicas": {}, "f:paused": {}}}


def test_the_scale_shows_the_owners_of_replicas_only() -> None:
    entries = [_entry("a", BOTH), _entry("b", {"f:spec": {"f:paused": {}}}), _entry("c", REPLICAS, version="apps/v2")]
    assert of_scale(entries, "apps/v1", ".spec.replicas") == [_entry("a", REPLICAS, version="autoscaling/v1")]


def test_a_plain_writer_is_taken_over_even_by_itself() -> None:
    entries = [_entry("a", BOTH)]
    scale = of_scale(entries, "apps/v1", ".spec.replicas")
    untimed = {name: value for name, value in _entry("a", REPLICAS).items() if name != "time"}
    assert of_object(entries, scale, "apps/v1", ".spec.replicas") == [untimed, _entry("a", {"f:spec": {"f:paused": {}}})]


def test_an_applier_keeps_what_it_has() -> None:
    entries = [_entry("a", BOTH, operation="Apply")]
    assert of_object(entries, of_scale(entries, "apps/v1", ".spec.replicas"), "apps/v1", ".spec.replicas") == entries


def test_of_two_entries_of_one_writer_the_later_is_read() -> None:
    entries = [_entry("a", REPLICAS), _entry("a", {"f:spec": {"f:paused": {}}})]
    assert of_scale(entries, "apps/v1", ".spec.replicas") == []


def test_other_places_of_replicas() -> None:
    entries = [_entry("a", {"f:spec": {"f:size": {"f:count": {}}}})]
    scale = of_scale(entries, "apps/v1", ".spec.size.count")
    assert [each["fieldsV1"] for each in of_object(entries, scale, "apps/v1", ".spec.size.count")] == [entries[0]["fieldsV1"]]
