from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.kube.watch.scan import elements, members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(['"', "\\", "]}", '{"a":', ",:"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
NESTED = st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=4), VALUES, max_size=3)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.booleans())
def test_members_yields_the_members_of_any_json_object(value: dict[str, object], spaced: bool) -> None:
    text = json.dumps(value, indent=1 if spaced else None).encode()
    assert {name: json.loads(part) for name, part in members(text)} == value


@given(st.lists(NESTED, max_size=4), st.booleans())
def test_elements_yields_the_elements_of_any_json_array(value: list[object], spaced: bool) -> None:
    text = json.dumps(value, indent=1 if spaced else None).encode()
    assert [json.loads(part) for part in elements(text)] == value


def test_deeply_nested_json_is_scanned() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert list(elements(b"[{" + b'"a":' + deep + b"}," + b'{"b":1}]')) == [b'{"a":' + deep + b"}", b'{"b":1}']
    assert list(members(b'{"a":' + deep + b',"b":1}')) == [("a", deep), ("b", b"1")]


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"a":1', b'{"a', b'"{}"', b"{\xff:1}"])
def test_members_of_text_that_is_no_object_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        list(members(text))


@pytest.mark.parametrize("text", [b"", b"[", b'[{"a":1}', b'[{"a]'])
def test_elements_of_text_that_is_no_array_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        list(elements(text))
