import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver.documents.errors import MalformedSelector
from pyroclast_standalone.apiserver.documents.selectors import (
    from_label_selector,
    parse_field_selector,
    parse_label_selector,
    read_field,
)

LABELS = {"app": "web", "tier": "front", "rank": "7"}
KEYS = st.sampled_from(["app", "tier", "rank", "x.y/z"])
VALUES = st.sampled_from(["web", "front", "7", ""])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app!=web", False),
        ("nope!=x", True),
        ("app in (web,db)", True),
        ("app notin (web)", False),
        ("nope notin (web)", True),
        ("app", True),
        ("!app", False),
        ("!nope", True),
        ("rank>5", True),
        ("rank<5", False),
        ("app=", False),
        ("x in ()", False),
        ("app in (,web)", True),
    ],
)
def test_label_selector_matches_labels_by_its_requirements(text, want):
    assert parse_label_selector(text).matches(LABELS) is want


SHAPE = " is not like a=b, a!=b, a in (b,c), a or !a"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a in (", '"a in ("' + SHAPE),
        ("a=b c", '"a=b c"' + SHAPE),
        ("a,,b", '",b"' + SHAPE),
        ("a=b,", '"a=b,"' + SHAPE),
        ("b,a==!b", '"a==!b"' + SHAPE),
        ("x notin a", '"x notin a"' + SHAPE),
        ("a==1,(x)", '"(x)"' + SHAPE),
        ("rank>x", """values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"""),
        ("-a", '<nil>: Invalid value: "-a": name part must consist'),
    ],
)
def test_malformed_label_selector_is_refused_with_the_reason(text, want):
    with pytest.raises(MalformedSelector) as refusal:
        parse_label_selector(text)
    assert str(refusal.value).startswith(f"unable to parse requirement: {want}")


@given(KEYS, st.lists(VALUES, min_size=1, max_size=3), st.dictionaries(KEYS, VALUES))
@settings(max_examples=50)
def test_in_and_notin_exclude_each_other(key, values, labels):
    listed = ",".join(values)
    inside = parse_label_selector(f"{key} in ({listed})").matches(labels)
    assert inside is not parse_label_selector(f"{key} notin ({listed})").matches(labels)
    expression = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    assert from_label_selector(expression).matches(labels) is inside


POD = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n1", "hostNetwork": True}}
FIELDS = {"spec.nodeName": read_field("spec.nodeName"), "spec.hostNetwork": read_field("spec.hostNetwork")}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("metadata.name=p", True),
        ("spec.nodeName=n1,metadata.namespace==ns", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=", False),
        ("spec.hostNetwork=true", True),
        ("metadata.name=p\\,q", False),
    ],
)
def test_field_selector_matches_object_fields(text, want):
    assert parse_field_selector(text, FIELDS).selects(POD) is want


def test_field_selector_treats_a_missing_field_as_an_empty_string():
    selector = parse_field_selector("spec.nodeName=", FIELDS)
    assert selector.selects({"metadata": {}, "spec": {}})
    assert selector.exact("spec.nodeName") == ""
    assert selector.exact("metadata.name") is None


@pytest.mark.parametrize(
    ("text", "fields", "want"),
    [
        ("x=y", FIELDS, "field label not supported: x"),
        ("x=y", None, '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("spec.nodeName", FIELDS, "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
    ],
)
def test_invalid_field_selector_is_refused_with_the_reason(text, fields, want):
    with pytest.raises(MalformedSelector) as refusal:
        parse_field_selector(text, fields)
    assert str(refusal.value) == want
