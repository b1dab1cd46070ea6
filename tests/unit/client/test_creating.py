"""What a server that is older than the client does not know."""

import pytest

from pyroclast_client.submission import unknown_fields, without

REFUSAL = (
    'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.retry", '
    'unknown field "spec.tasks[1].extra"'
)


def test_unknown_fields_are_read_from_a_strict_decoding_error():
    assert unknown_fields(REFUSAL) == ["spec.retry", "spec.tasks[1].extra"]
    assert unknown_fields('strict decoding error: duplicate field "spec.retry"') == []


def test_unknown_fields_are_removed_from_a_copy_of_the_object():
    given = {"spec": {"retry": {}, "queue": "q", "tasks": [{"extra": 1}, {"extra": 2, "name": "b"}]}}
    assert without(given, unknown_fields(REFUSAL)) == {"spec": {"queue": "q", "tasks": [{"extra": 1}, {"name": "b"}]}}
    assert given["spec"]["retry"] == {}


@pytest.mark.parametrize("message", ["", "denied by a policy", 'unknown queue "a"'])
def test_other_refusals_yield_no_unknown_fields(message):
    assert unknown_fields(message) == []
