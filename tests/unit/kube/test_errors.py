"""Whatever a broken server or proxy sends for a Status: an error of ours comes of it, and only what makes sense is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyroclast.api.records.pods import Pod
from pyroclast.kube.basics.errors import LONGEST_RETRY_AFTER, ApiError, KubeError, is_terminating_namespace, is_transient
from pyroclast.kube.watch.decode import Decoder
from tests.counts import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([-5, 0, 10**400]) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
DETAILS = st.fixed_dictionaries({}, optional={"retryAfterSeconds": JSON, "causes": JSON | st.lists(JSON)})
STATUS = st.fixed_dictionaries({}, optional={"code": JSON, "reason": JSON, "message": JSON, "details": JSON | DETAILS})

DECODER = Decoder(Pod)


def make_sense(error: ApiError) -> None:
    assert isinstance(error.status, int)
    assert isinstance(error.reason, str)
    assert str(error)
    assert error.retry_after is None or 0.0 <= error.retry_after <= LONGEST_RETRY_AFTER
    assert isinstance(is_terminating_namespace(error), bool)
    assert isinstance(is_transient(error), bool)


@settings(max_examples=examples(2000, one_in=16))
@given(STATUS, st.sampled_from([400, 404, 409, 422, 429, 500, 503]))
@example({"details": {"causes": 5}}, 403)
def test_an_error_response_with_any_body_becomes_a_valid_api_error(body: dict[str, Any], status: int) -> None:
    error = ApiError.from_status(status, body)
    assert error.status == status
    make_sense(error)


def test_deeply_nested_status_fields_become_a_valid_api_error() -> None:
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    make_sense(ApiError.from_status(429, {"reason": deep, "message": deep, "details": {"causes": deep}}))


@settings(max_examples=examples(2000, one_in=16))
@given(STATUS | JSON)
@example({"code": [1], "message": "x"})
@example({"code": 10**400})
@example({"details": {"retryAfterSeconds": 10**400}})
def test_any_error_event_of_a_watch_raises_a_valid_kube_error(status: Any) -> None:
    with pytest.raises(KubeError) as caught:
        DECODER.change(b'{"type":"ERROR","object":%s}' % json.dumps(status).encode())
    if isinstance(caught.value, ApiError):
        assert 400 <= caught.value.status < 600
        make_sense(caught.value)


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (7, 7.0),
        (-5, 0.0),
        pytest.param(10**400, LONGEST_RETRY_AFTER, id="huge"),
        (3600, LONGEST_RETRY_AFTER),
        (True, None),
        ("7", None),
    ],
)
def test_retry_after_seconds_are_bounded_and_ignored_when_not_a_number(asked: object, want: float | None) -> None:
    assert ApiError.from_status(429, {"details": {"retryAfterSeconds": asked}}).retry_after == want
