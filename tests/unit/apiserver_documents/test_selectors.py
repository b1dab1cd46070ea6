from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver.documents.selectors import (
    from_label_selector,
    parse_field_selector,
    parse_label_selector,
    read_field,
)

KEYS = st.sampled_from(["app", "tier", "rank", "x.y/z"])
VALUES = st.sampled_from(["web", "front", "7", ""])


@given(KEYS, st.lists(VALUES, min_size=1, max_size=3), st.dictionaries(KEYS, VALUES))
@settings(max_examples=50)
def test_in_and_notin_exclude_each_other(key, values, labels):
    listed = ",".join(values)
    inside = parse_label_selector(f"{key} in ({listed})").matches(labels)
    assert inside is not parse_label_selector(f"{key} notin ({listed})").matches(labels)
    expression = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    assert from_label_selector(expression).matches(labels) is inside


FIELDS = {"spec.nodeName": read_field("spec.nodeName"), "spec.hostNetwork": read_field("spec.hostNetwork")}


def test_field_selector_treats_a_missing_field_as_an_empty_string():
    selector = parse_field_selector("spec.nodeName=", FIELDS)
    assert selector.selects({"metadata": {}, "spec": {}})
    assert selector.exact("spec.nodeName") == ""
    assert selector.exact("metadata.name") is None
