"""Objects with null and unreadable fields are read as records, whatever the field, the kind and the depth."""

from __future__ import annotations

import copy
import enum
import importlib
import json
import re
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.records.meta import ObjectRecord
from pyroclast.api.records.reading import IDENTITY, MOST_FAULTS, TOO_DEEP, Unreadable, _fields, reader

OF_PROGRAMS = ("pyroclast.api.records.batch", "pyroclast_board.cluster.records", "pyroclast_standalone.nodes.records")
"""Modules with records of one program, besides those of `pyroclast.api.records`."""

Path = tuple[str | int, ...]


def all_records() -> dict[str, type[ObjectRecord]]:
    for name in OF_PROGRAMS:
        importlib.import_module(name)
    found: dict[str, type[ObjectRecord]] = {}
    pending = [ObjectRecord]
    while pending:
        for each in pending.pop().__subclasses__():
            if not each.__module__.startswith("tests."):
                found[f"{each.__module__}.{each.__name__}"] = each
            pending.append(each)
    return found


RECORDS = all_records()


def solid(type_: Any) -> Any:
    if get_origin(type_) in {Union, UnionType}:
        return next(each for each in get_args(type_) if each is not NoneType)
    return type_


def sample(type_: Any) -> Any:
    """Return a JSON value that gives every field a value, of one element for lists and maps."""
    type_ = solid(type_)
    origin = get_origin(type_) or type_
    if type_ is msgspec.Raw or type_ is Any:
        return {"a": 1}
    if issubclass(origin, msgspec.Struct):
        return {wire: sample(each) for _, wire, each in _fields(type_)}
    if issubclass(origin, Mapping):
        return {"a-key": sample(get_args(type_)[1])}
    if issubclass(origin, tuple | list):
        return [sample(get_args(type_)[0])]
    if issubclass(origin, enum.Enum):
        return next(iter(origin)).value
    return {str: "1", int: 1, float: 1.5, bool: True}[origin]


def fields(type_: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the type of each field of a struct, at each depth."""
    type_ = solid(type_)
    origin = get_origin(type_) or type_
    if not isinstance(origin, type):
        return
    if issubclass(origin, msgspec.Struct):
        for _, wire, each in _fields(type_):
            yield (*path, wire), each
            yield from fields(each, (*path, wire))
    elif issubclass(origin, Mapping) and get_args(type_):
        yield from fields(get_args(type_)[1], (*path, "a-key"))
    elif issubclass(origin, tuple | list):
        yield from fields(get_args(type_)[0], (*path, 0))


def elements(type_: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the type of the element of each list and map, at each depth."""
    for where, each in fields(type_, path):
        kind = solid(each)
        origin = get_origin(kind)
        if isinstance(origin, type) and issubclass(origin, tuple | list):
            yield (*where, 0), get_args(kind)[0]
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            yield (*where, "a-key"), get_args(kind)[1]


def changed(body: Any, path: Path, value: Any) -> Any:
    """Return `body` with `value` at `path`; without the member if `value` is Ellipsis."""
    result = copy.deepcopy(body)
    holder = result
    for each in path[:-1]:
        holder = holder[each]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return result


def text(path: Path) -> str:
    return "".join(f"[{each}]" if each in {0, "a-key"} else f".{each}" for each in path).removeprefix(".")


def read(record: type[Any], body: Any) -> tuple[Any, str]:
    return reader(record).read(json.dumps(body).encode())


def is_part(path: str, other: str) -> bool:
    """Whether one of the two fields is a part of the other."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))


def nonsense(type_: Any) -> Any:
    """Return a JSON value that is no `type_`; None if every value fits."""
    type_ = solid(type_)
    origin = get_origin(type_) or type_
    if type_ in {msgspec.Raw, Any}:
        return None
    return {"nonsense": []} if origin in {int, str, bool, float} or issubclass(origin, enum.Enum) else 7


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_null_in_any_field_at_any_depth_is_the_default_of_the_field(record: type[Any]) -> None:
    whole = sample(record)
    assert read(record, whole)[1] == ""
    for path, type_ in fields(record):
        if solid(type_) is not msgspec.Raw:  # null is raw JSON too
            without = read(record, changed(whole, path, ...))
            assert read(record, changed(whole, path, None)) == without, path
            assert without[1] == "", path


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_null_in_any_list_or_map_is_the_zero_value_of_go(record: type[Any]) -> None:
    whole = sample(record)
    for path, type_ in elements(record):
        value, faults = read(record, changed(whole, path, None))
        assert faults == "", path
        if type_ is str:
            assert value == read(record, changed(whole, path, ""))[0], path


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_an_unreadable_field_has_its_default_or_is_essential_and_is_named(record: type[Any]) -> None:
    whole = sample(record)
    for path, type_ in fields(record):
        value = nonsense(type_)
        if value is None:
            continue
        body = changed(whole, path, value)
        if any(is_part(text(path), each) for each in (*IDENTITY, *record.ESSENTIAL)):
            with pytest.raises(Unreadable, match=re.escape(text(path))):
                read(record, body)
            continue
        result, faults = read(record, body)
        assert faults.startswith(f"{text(path)}: "), path
        assert result == read(record, changed(whole, path, ...))[0], path


SUBJECTS = [
    (
        records.Node,
        {"status": {"images": [{"names": None, "sizeBytes": 5}], "allocatable": {"cpu": "4"}, "conditions": None}},
        "",
        lambda node: (node.status.images[0].names, node.status.allocatable) == ((), {"cpu": "4"}),
    ),
    (records.CsiNode, {"spec": {"drivers": None}}, "", lambda node: node.spec.drivers == ()),
    (records.Pod, {"spec": None, "status": None}, "", lambda pod: pod.spec.node_name == ""),
    (
        records.Node,
        {"spec": {"taints": [{"key": "a", "value": 5, "effect": "NoSchedule"}, "b", {"key": "c"}]}},
        "spec.taints[0].value: Expected `str`, got `int`; spec.taints[1]: Expected `object`, got `str`",
        lambda node: [each.key for each in node.spec.taints] == ["a", "c"],
    ),
    (
        records.Node,
        {"status": {"allocatable": {"cpu": [], "memory": "1Gi"}}},
        "status.allocatable[cpu]: Expected `int | str`, got `array`",
        lambda node: node.status.allocatable == {"memory": "1Gi"},
    ),
    (records.Queue, {"status": {"state": None, "allocated": None}}, "", lambda queue: queue.status.state is None),
]


@pytest.mark.parametrize(("record", "body", "faults", "holds"), SUBJECTS)
def test_fields_are_read_one_by_one(record: type[Any], body: Any, faults: str, holds: Any) -> None:
    result, error = read(record, {"metadata": {"name": "x"}} | body)
    assert error == faults
    assert result.metadata.name == "x"
    assert holds(result)


UNUSABLE = [
    (records.Job, {"spec": {"tasks": "none"}}, "spec.tasks: "),
    (records.Job, {"spec": {"tasks": [{"replicas": "5"}]}}, "spec.tasks[0].replicas: "),
    (records.Pod, {"spec": {"nodeName": 5}}, "spec.nodeName: "),
    (records.Pod, {"spec": 7}, "spec: "),
    (records.Node, {"metadata": {"uid": 5}}, "metadata.uid: "),
    (records.Node, {"metadata": []}, "metadata: "),
    (records.Node, [], "Expected `object`, got `array`"),
    (records.Node, None, "Expected `object`, got `null`"),
]


@pytest.mark.parametrize(("record", "body", "error"), UNUSABLE)
def test_an_object_without_an_essential_field_is_refused(record: type[Any], body: Any, error: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read(record, body)
    assert error in str(caught.value)


def test_a_message_names_a_few_of_many_faults() -> None:
    _, faults = read(records.Node, {"spec": {"taints": [5] * 1000}})
    assert faults.count("spec.taints[") == MOST_FAULTS
    assert faults.endswith(f"; and {1000 - MOST_FAULTS} more")


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(Unreadable, match=TOO_DEEP):
        reader(records.Node).read(b'{"spec":{"taints":%s}}' % (b"[" * 5000 + b"]" * 5000))
