import json

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver.documents import json_patch

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/c", "~"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
@settings(max_examples=100)
def test_json_patch_yields_the_target_document_and_keeps_the_source(old, new):
    before = json.dumps(old)
    patch = jsonpatch.make_patch(old, new).patch
    assert json_patch.apply(old, patch) == new
    assert json.dumps(old) == before


@given(VALUES, VALUES)
@settings(max_examples=100)
def test_merge_patch_is_idempotent(target, patch):
    once = json_patch.merge(target, patch)
    assert json_patch.merge(once, patch) == once
