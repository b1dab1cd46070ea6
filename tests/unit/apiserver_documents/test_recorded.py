"""What a real kube-apiserver 1.36.1 made of the cases, and what ours makes of them."""

import base64
import copy

import pytest

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents import managed_fields, protobuf, tables
from pyroclast_standalone.apiserver.documents.errors import DocumentError, causes_of
from pyroclast_standalone.times import parse_time
from tests.unit.apiserver_documents.conftest import WIDGETS as DEFINITION
from tests.unit.apiserver_documents.conftest import address, recorded, settled

NOW = "2026-01-01T00:00:00Z"
CREATED, WIDGETS, PROTOBUF = (recorded(name) for name in ("created", "widgets", "protobuf"))
# What the server refuses before it asks the rules of the kind.
BEFORE_THE_KIND = ("error looking up service account", "does not match the namespace sent on the request")
REFUSED = [entry for entry in recorded("refused") if not any(words in str(entry["answer"]) for words in BEFORE_THE_KIND)]
# Kinds of which others than the kind's rules make something on the way: the taint of new nodes, the status of definitions.
BY_OTHERS = {"Node": ("spec", "taints"), "CustomResourceDefinition": ("status",), "CSINode": ("spec", "drivers")}


def strategy_for(entry):
    return kinds.strategy_of(*address(entry["path"]), entry["sent"]["kind"])


def without(document, path):
    if path and path[0] in document:
        if len(path) == 1:
            del document[path[0]]
        else:
            without(document[path[0]], path[1:])
    return document


@pytest.mark.parametrize("entry", CREATED, ids=lambda entry: f"{entry['sent']['kind']}-{entry['sent']['metadata']['name']}")
def test_created_objects_equal_those_of_kube_apiserver(entry):
    strategy, want = strategy_for(entry), entry["made"]
    made = copy.deepcopy(entry["sent"])
    assert strategy.decode(made) == []
    managed_fields.track_update(made, None, strategy.schema, manager="m", api_version=strategy.api_version, now=NOW)
    for field in ("uid", "creationTimestamp", "namespace"):
        if field in want["metadata"]:
            made["metadata"][field] = want["metadata"][field]
    strategy.prepare_create(made)
    assert strategy.validate(made).errors == []
    hidden = BY_OTHERS.get(entry["sent"]["kind"], ())
    assert settled(without(made, hidden)) == settled(without(copy.deepcopy(want), hidden))


@pytest.mark.parametrize("entry", CREATED, ids=lambda entry: f"{entry['sent']['kind']}-{entry['sent']['metadata']['name']}")
def test_tables_have_the_columns_and_cells_of_a_real_server(entry):
    made, want = entry["made"], entry["table"]
    table = tables.render(strategy_for(entry), [made], now=parse_time(made["metadata"]["creationTimestamp"]))
    shape = ("name", "type", "format", "priority")
    assert [[column[part] for part in shape] for column in table["columnDefinitions"]] == [
        [column[part] for part in shape] for column in want["columnDefinitions"]
    ]
    assert settled(table["rows"][0]["cells"][:1]) == settled(want["rows"][0]["cells"][:1])
    for mine, theirs, column in zip(table["rows"][0]["cells"], want["rows"][0]["cells"], want["columnDefinitions"], strict=True):
        if column["type"] != "date" and column["name"] not in {"Age", "Cluster-IP", "Last Seen", "First Seen"}:
            assert settled(mine) == settled(theirs), column["name"]


@pytest.mark.parametrize("entry", PROTOBUF, ids=lambda entry: f"{entry['json']['kind']}-{entry['json']['metadata']['name']}")
def test_protobuf_decodes_to_the_same_object_as_json(entry):
    strategy = kinds.strategy_of(*(["", *entry["json"]["apiVersion"].split("/")][-2:]), entry["json"]["kind"])
    decoded = protobuf.decode(base64.b64decode(entry["body"]))
    assert strategy.decode(decoded) == []
    assert settled(decoded) == settled(entry["json"])


def own_refusal(entry):
    """(code, the sorted causes, or the message where there are none) of our refusal; None when we take it."""
    group, version = address(entry["path"])
    plural = entry["path"].rpartition("/")[2]
    strategy = next(
        each for each in kinds.builtin_strategies() if (each.group, each.version, each.plural) == (group, version, plural)
    )
    document = copy.deepcopy(entry["sent"])
    document.update(apiVersion=strategy.api_version, kind=strategy.kind)
    try:
        strategy.decode(document)
    except DocumentError as error:
        message = f'{strategy.kind} in version "{version}" cannot be handled as a {strategy.kind}: {error.message}'
        return 400, message
    if strategy.namespaced:
        document["metadata"].setdefault("namespace", "recorded")
    document["metadata"]["uid"] = "0"
    strategy.prepare_create(document)
    errors = strategy.validate(document).errors
    if not errors:
        return None
    return 422, sorted(causes_of(errors), key=str)


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry["path"].rpartition("/")[2])
def test_validation_errors_equal_those_of_kube_apiserver(entry):
    answer = entry["answer"]
    if answer is None:
        assert own_refusal(entry) is None
    elif answer["code"] == 422:
        assert own_refusal(entry) == (422, sorted(answer["details"]["causes"], key=str))
    else:
        assert own_refusal(entry) == (answer["code"], answer["message"])


@pytest.fixture(scope="module")
def widgets():
    definition = copy.deepcopy(DEFINITION)
    strategy = kinds.strategy_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    strategy.decode(definition)
    assert strategy.validate(definition).errors == []
    return kinds.custom_strategy(definition, "v1")


@pytest.mark.parametrize("entry", WIDGETS, ids=lambda entry: str(entry["sent"]["spec"])[:60])
def test_custom_resources_are_pruned_defaulted_and_validated_as_by_a_real_server(widgets, entry):
    document = copy.deepcopy(entry["sent"])
    document["metadata"]["namespace"] = "recorded"
    want = entry["answer"]
    if entry["code"] == 400:
        with pytest.raises(DocumentError) as refusal:
            widgets.decode(document)
        assert want["message"].endswith(refusal.value.message)
        return
    warnings = widgets.decode(document)
    managed_fields.track_update(document, None, widgets.schema, manager="m", api_version=widgets.api_version, now=NOW)
    widgets.prepare_create(document)
    verdict = widgets.validate(document)
    if entry["code"] != 201:
        assert sorted(causes_of(verdict.errors), key=str) == sorted(want["details"]["causes"], key=str)
        return
    warnings += widgets.warnings(document)
    assert [warning.partition(" - ")[2] for warning in entry["warnings"]] == [_header(warning) for warning in warnings]
    made = settled(document)
    want = settled(want)
    for field in ("uid", "creationTimestamp"):
        want["metadata"].pop(field)
    assert verdict.errors == []
    assert made == want


def _header(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
