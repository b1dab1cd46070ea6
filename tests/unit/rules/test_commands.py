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
def test_known(action: str, kind: str) -> None:
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
def test_unknown(action: str | None, kind: str, want: str) -> None:
    verdict = commands.validate(command(action, kind))
    assert verdict.message.startswith(want)
    assert [cause.path for cause in verdict.causes] == ["action"]
    assert verdict.sentence.startswith(verdict.message)


def test_malformed() -> None:
    assert not commands.validate({}).allowed
    assert not commands.validate({"action": ["AbortJob"], "target": "Job"}).allowed
