"""What a server that is older than the client does not know."""

import pytest

from pyroclast_client.creating import unknown_fields, without

REFUSAL = (
    'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.retry", '
    'unknown field "spec.tasks[1].extra"'
)


def test_the_fields_that_a_server_does_not_know_are_read_from_its_refusal():
    assert unknown_fields(REFUSAL) == ["spec.retry", "spec.tasks[1].extra"]
    assert unknown_fields('strict decoding error: duplicate field "spec.retry"') == []


def test_they_are_left_out_of_a_copy():
    given = {"spec": {"retry": {}, "queue": "q", "tasks": [{"extra": 1}, {"extra": 2, "name": "b"}]}}
    assert without(given, unknown_fields(REFUSAL)) == {"spec": {"queue": "q", "tasks": [{"extra": 1}, {"name": "b"}]}}
    assert given["spec"]["retry"] == {}


@pytest.mark.parametrize("message", ["", "denied by a policy", 'unknown queue "a"'])
def test_other_refusals_name_none(message):
    assert unknown_fields(message) == []
