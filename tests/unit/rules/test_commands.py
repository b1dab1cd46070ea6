"""Commands: an order is taken when its target's kind knows it."""

from __future__ import annotations

import pytest

from pyroclast.rules import commands


def command(action: str | None, kind: str = "Job") -> dict[str, object]:
    return {"metadata": {"name": "c"}, "action": action, "target": {"kind": kind, "name": "x"}}


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("AbortJob", "Job"),
        ("ResumeJob", "Job"),
        ("RestartTask", "Job"),
        ("CloseQueue", "Queue"),
        ("OpenQueue", "Queue"),
        ("SyncJobFlow", "JobFlow"),
    ],
)
def test_command_with_an_action_of_its_target_kind_is_allowed(action: str, kind: str) -> None:
    assert commands.validate(command(action, kind)).allowed


@pytest.mark.parametrize(
    ("action", "kind", "want"),
    [
        ("Explode", "Job", 'unknown action "Explode" of a Job; there are AbortJob, CompleteJob, '),
        ("OpenQueue", "Job", 'unknown action "OpenQueue" of a Job; there are AbortJob, '),
        ("AbortJob", "Queue", 'unknown action "AbortJob" of a Queue; there are CloseQueue, OpenQueue, SyncQueue'),
        ("", "Job", "a command needs an action; there are AbortJob, "),
        (None, "Queue", "a command needs an action; there are CloseQueue, "),
        ("Explode", "", 'unknown action "Explode"; there are AbortJob, CloseQueue, '),
    ],
)
def test_command_with_an_unknown_or_missing_action_is_refused_with_the_known_actions(
    action: str | None, kind: str, want: str
) -> None:
    verdict = commands.validate(command(action, kind))
    assert verdict.message.startswith(want)
    assert [cause.path for cause in verdict.causes] == ["action"]
    assert verdict.sentence.startswith(verdict.message)


def test_malformed_command_is_refused() -> None:
    assert not commands.validate({}).allowed
    assert not commands.validate({"action": ["AbortJob"], "target": "Job"}).allowed
