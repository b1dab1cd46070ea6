"""How a real kube-apiserver 1.36.1 judged objects of every kind, and how ours does: every cause, and every warning."""

import copy

import pytest

from pyroclast.rules.podspecs.annotations import check_annotation_names
from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents.errors import causes_of
from tests.unit.apiserver_documents.conftest import address, recorded, settled

ROWS = recorded("kinds")


def strategy_at(path):
    group, version = address(path)
    plural = path.rpartition("/")[2]
    return next(
        each for each in kinds.builtin_strategies() if (each.group, each.version, each.plural) == (group, version, plural)
    )


def judged(row):
    """(causes, warnings) of the object as it comes out of admission: with its account, and the taint that new nodes have."""
    strategy = strategy_at(row["path"])
    document = {**copy.deepcopy(row["sent"]), "apiVersion": strategy.api_version, "kind": strategy.kind}
    told = strategy.decode(document)
    metadata = document["metadata"]
    if not metadata.get("name"):
        metadata["name"] = metadata.get("generateName", "")
    if strategy.namespaced:
        metadata.setdefault("namespace", "recorded")
    metadata["uid"] = "5b0e4d5c-0b0f-4c3b-9d3a-0d7f2f0f3f5e"
    if strategy.kind == "Pod":
        document["spec"].setdefault("serviceAccountName", "default")
    strategy.prepare_create(document)
    causes = causes_of(strategy.validate(document).errors)
    told += [strategy.deprecation] if strategy.deprecation else []
    return causes, told if causes else [*told, *strategy.warnings(document)]


def ordered(causes):
    return sorted(map(settled, causes), key=str)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["path"].rpartition("/")[2])
def test_validation_causes_and_warnings_equal_those_of_kube_apiserver(row):
    causes, warnings = judged(row)
    assert ordered(causes) == ordered(row["causes"])
    assert sorted(warnings) == [text[1:-1].replace('\\"', '"') for text in row["warnings"]]


@pytest.mark.parametrize(
    ("text", "fits"), [("a" * 262_143, True), ("a" * 262_144, False), ("é" * 131_071, True), ("é" * 131_072, False)]
)
def test_annotation_size_limit_is_counted_in_bytes(text, fits):
    errors = []
    check_annotation_names({"a": text}, "metadata.annotations", errors)
    assert (errors == []) is fits
