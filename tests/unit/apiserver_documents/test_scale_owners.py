"""Who owns replicas, as the Scale of an object tells it, and back."""

from __future__ import annotations

from typing import Any

from pyroclast_standalone.apiserver.verbs.scale import of_object, of_scale

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


def test_scale_lists_only_managers_of_replicas_in_the_same_api_version() -> None:
    entries = [_entry("a", BOTH), _entry("b", {"f:spec": {"f:paused": {}}}), _entry("c", REPLICAS, version="apps/v2")]
    assert of_scale(entries, "apps/v1", ".spec.replicas") == [_entry("a", REPLICAS, version="autoscaling/v1")]


def test_replicas_move_to_a_new_entry_when_an_update_manager_writes_the_scale() -> None:
    entries = [_entry("a", BOTH)]
    scale = of_scale(entries, "apps/v1", ".spec.replicas")
    untimed = {name: value for name, value in _entry("a", REPLICAS).items() if name != "time"}
    assert of_object(entries, scale, "apps/v1", ".spec.replicas") == [untimed, _entry("a", {"f:spec": {"f:paused": {}}})]


def test_apply_entry_is_kept_when_its_scale_is_written_back() -> None:
    entries = [_entry("a", BOTH, operation="Apply")]
    assert of_object(entries, of_scale(entries, "apps/v1", ".spec.replicas"), "apps/v1", ".spec.replicas") == entries


def test_scale_reads_the_last_of_two_entries_of_one_manager() -> None:
    entries = [_entry("a", REPLICAS), _entry("a", {"f:spec": {"f:paused": {}}})]
    assert of_scale(entries, "apps/v1", ".spec.replicas") == []


def test_scale_ownership_follows_a_custom_replicas_path() -> None:
    entries = [_entry("a", {"f:spec": {"f:size": {"f:count": {}}}})]
    scale = of_scale(entries, "apps/v1", ".spec.size.count")
    assert [each["fieldsV1"] for each in of_object(entries, scale, "apps/v1", ".spec.size.count")] == [entries[0]["fieldsV1"]]
