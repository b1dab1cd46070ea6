"""Commands: a Command is complete, known to its target, and bears no mark but admission's."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.keys import AUTHORIZED_FOR
from pyroclast.rules import commands
from pyroclast.rules.verdicts import applied


def command(action: str | None, kind: str = "Job", **annotations: str) -> dict[str, Any]:
    metadata = {"name": "c", **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "action": action, "target": {"kind": kind, "name": "x", "uid": "u"}}


def marked(value: str) -> dict[str, Any]:
    return command("AbortJob", **{AUTHORIZED_FOR: value})


@pytest.mark.parametrize(
    ("action", "kind"),
    [("AbortJob", "Job"), ("ResumeJob", "Job"), ("RestartTask", "Job"), ("CloseQueue", "Queue"), ("OpenQueue", "Queue")],
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
    ],
)
def test_command_with_an_unknown_or_missing_action_is_refused_with_the_known_actions(
    action: str | None, kind: str, want: str
) -> None:
    verdict = commands.validate(command(action, kind))
    assert verdict.message.startswith(want)
    assert [cause.path for cause in verdict.causes] == ["action"]
    assert verdict.sentence.startswith(verdict.message)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ({"kind": "Queue", "name": "default"}, "target.uid"),
        ({"kind": "Queue", "name": "default", "uid": ""}, "target.uid"),
        ({"kind": "Queue", "uid": "u"}, "target.name"),
        ({"kind": "JobFlow", "name": "f", "uid": "u"}, "target.kind"),
    ],
)
def test_command_with_an_incomplete_target_is_refused(target: dict[str, str], path: str) -> None:
    verdict = commands.validate({"action": "CloseQueue", "target": target})
    assert [cause.path for cause in verdict.causes] == [path]


def test_malformed_command_is_refused() -> None:
    assert not commands.validate({}).allowed
    assert not commands.validate({"action": ["AbortJob"], "target": "Job"}).allowed


@pytest.mark.parametrize("given", [command("AbortJob"), marked("u/CloseQueue"), marked("other/AbortJob"), marked("u/AbortJob")])
def test_admission_marks_a_command_whatever_its_user_wrote(given: dict[str, Any]) -> None:
    after = applied(given, commands.mark(given))
    assert after["metadata"]["annotations"][AUTHORIZED_FOR] == "u/AbortJob"
    assert commands.validate_mark(after).allowed


def test_mark_of_another_target_or_action_is_refused_where_no_webhook_writes_it() -> None:
    assert commands.validate_mark(command("AbortJob")).allowed
    assert not commands.validate_mark(marked("u/TerminateJob")).allowed
    assert not commands.validate_mark(marked("")).allowed


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"action": "TerminateJob"}, "action"),
        ({"target": {"kind": "Queue", "name": "default", "uid": "q"}}, "target"),
        ({"metadata": {"annotations": {}}}, f"metadata.annotations[{AUTHORIZED_FOR}]"),
        ({"metadata": {"annotations": {AUTHORIZED_FOR: "q/AbortJob"}}}, f"metadata.annotations[{AUTHORIZED_FOR}]"),
    ],
)
def test_authorized_command_cannot_be_changed(change: dict[str, Any], path: str) -> None:
    old = marked("u/AbortJob")
    assert commands.validate_update({**old, "message": "why"}, old).allowed
    assert [cause.path for cause in commands.validate_update({**old, **change}, old).causes] == [path]
