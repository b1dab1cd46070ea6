"""Manifests are read as kubectl reads them, and what is wrong with one is said with file, document and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.manifests import has_all, read

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
LIST = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"


def test_manifests_are_read_from_documents_lists_and_folders(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(GOOD + "---\n" + LIST + "---\n")
    (tmp_path / "2.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}}')
    (tmp_path / "notes.txt").write_text("no manifest")
    names = [manifest["metadata"].get("name") for manifest in read([tmp_path])]
    assert names == ["a", "b", None]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: [", "not YAML: while parsing", id="syntax"),
        pytest.param(
            "- 1\n", "document 1: a manifest is a mapping with apiVersion, kind and metadata, this is a list", id="list"
        ),
        pytest.param("kind: Job\nmetadata: {name: a}\n", "document 1: apiVersion is missing", id="no-api-version"),
        pytest.param(GOOD + "---\napiVersion: v1\nmetadata: {name: a}\n", "document 2: kind is missing", id="no-kind"),
        pytest.param("apiVersion: v1\nkind: Job\n", "document 1: metadata.name is missing", id="no-name"),
        pytest.param(LIST.replace("name: b", "x: b"), "items[0]: metadata.name is missing", id="in-a-list"),
        pytest.param("---\n", "no objects in there", id="empty"),
    ],
)
def test_invalid_manifest_is_refused_naming_file_and_field(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(CommandError) as caught:
        read([file])
    assert str(file) in str(caught.value)
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_manifest_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file or directory; give the path of a manifest"):
        read([tmp_path / "none.yaml"])


def test_has_all_returns_whether_the_object_contains_the_expected_fields() -> None:
    found = {"metadata": {"name": "a", "uid": "1"}, "spec": {"tasks": [{"name": "t", "replicas": 1}]}}
    assert has_all(found, {"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "t"}]}})
    assert not has_all(found, {"spec": {"tasks": [{"name": "t"}, {"name": "u"}]}})
    assert not has_all(found, {"spec": {"tasks": {"name": "t"}}})
    assert not has_all(found, {"data": {}})
