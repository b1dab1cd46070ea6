"""Bodies and patterns as Go's encoding/json, sigs.k8s.io/yaml and regexp take them; the words of refusals are ours."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.resources.patterns import BadPattern, compile_pattern
from pyroclast_standalone.apiserver.documents.errors import Undecodable, UnsupportedBody
from pyroclast_standalone.apiserver.documents.protobuf import decode
from pyroclast_standalone.apiserver.documents.strict import parse_json, parse_yaml, strict_message
from tests.unit.apiserver_documents.conftest import recorded

BODIES = st.text(alphabet='{}[]",:0123456789-+.eE tfnul\\aß\x01', max_size=12)


@pytest.mark.parametrize("entry", recorded("json"), ids=lambda entry: repr(entry["body"])[:40])
def test_json_bodies_are_decoded_or_refused_as_recorded(entry):
    body = entry["body"].encode("latin-1")
    if "error" in entry:
        with pytest.raises(Undecodable) as refusal:
            parse_json(body)
        assert "\n" not in refusal.value.message
    else:
        assert parse_json(body)[0] == entry["value"]


@pytest.mark.parametrize("entry", recorded("yaml"), ids=lambda entry: repr(entry["body"])[:40])
def test_yaml_bodies_are_decoded_or_refused_as_recorded(entry):
    body = entry["body"].encode()
    if "error" in entry:
        with pytest.raises(Undecodable) as refusal:
            parse_yaml(body)
        assert "\n" not in refusal.value.message
    else:
        assert parse_yaml(body) == entry["value"]


@pytest.mark.parametrize("entry", recorded("patterns"), ids=lambda entry: entry["pattern"])
def test_regular_expressions_match_or_are_refused_as_recorded(entry):
    if "error" in entry:
        with pytest.raises(BadPattern) as refusal:
            compile_pattern(entry["pattern"])
        assert str(refusal.value).startswith("error parsing regexp: ")
    else:
        search = compile_pattern(entry["pattern"]).search
        texts = entry["matches"] + entry["others"]
        assert [text for text in texts if search(text)] == entry["matches"]


@given(BODIES)
def test_arbitrary_body_is_parsed_or_raises_undecodable(text):
    for parse in (parse_json, parse_yaml):
        with suppress(Undecodable):
            parse(text.encode())


def test_duplicate_json_fields_are_reported_and_the_last_value_is_kept():
    value, problems = parse_json(b'{"a":1,"a":2,"b":{"c":1,"c":2},"l":[{"x":1,"x":2}]}')
    assert value == {"a": 2, "b": {"c": 2}, "l": [{"x": 2}]}
    assert problems == ['duplicate field "a"', 'duplicate field "b.c"', 'duplicate field "l[0].x"']
    assert parse_json(b'{"a":1,"a":2}', duplicates=False) == ({"a": 2}, [])
    assert strict_message([*problems[:1], 'unknown field "z"']) == 'strict decoding error: duplicate field "a", unknown field "z"'


def test_deeply_nested_bodies_and_yaml_alias_bombs_are_refused():
    with pytest.raises(Undecodable, match="no JSON"):
        parse_json(b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(Undecodable):
        parse_yaml(b"[" * 100_000)
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(Undecodable, match="no aliases of anchors"):
        parse_yaml(bomb.encode())


def test_yaml_body_keeps_times_and_keys_as_texts():
    assert parse_yaml(b"a: 2026-01-01T00:00:00Z\n1: yes\nx: null\n---\nb: 2\n") == {
        "a": "2026-01-01T00:00:00Z",
        "1": True,
        "x": None,
    }


@given(st.binary(max_size=60))
def test_arbitrary_protobuf_is_decoded_or_raises_undecodable(content):
    envelope = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + bytes([len(content)]) + content
    with suppress(Undecodable):
        decode(envelope)


def message(*fields):
    return b"".join(bytes([number << 3 | 2, len(content)]) + content for number, content in fields)


def test_lists_by_name_are_read_from_protobuf():
    extra = [
        message((1, name), (2, message(*((1, each) for each in listed))))
        for name, listed in ((b"k", (b"a", b"b")), (b"none", ()))
    ]
    spec = message((3, b"u"), *((5, entry) for entry in extra))
    kind = message((1, b"authorization.k8s.io/v1"), (2, b"SubjectAccessReview"))
    decoded = decode(b"k8s\0" + message((1, kind), (2, message((2, spec)))))
    assert decoded["spec"] == {"user": "u", "extra": {"k": ["a", "b"], "none": []}}


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\0", b"k8s\0\x0a\x05abc", b"k8s\0\x0a\xff\xff\xff\xff"])
def test_malformed_protobuf_is_refused(body):
    with pytest.raises((Undecodable, UnsupportedBody)):
        decode(body)


def test_a_regular_expression_that_would_be_compiled_for_minutes_is_refused():
    with pytest.raises(BadPattern, match="expression too large"):
        compile_pattern(r"\pL" * 400_000)
