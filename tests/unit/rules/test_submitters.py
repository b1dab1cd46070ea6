"""Who submitted an object is written once, and not forged."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.keys import SUBMITTED_BY
from pyroclast.rules import submitters
from pyroclast.rules.patches import applied


def body(by: str | None = None, **annotations: str) -> dict[str, Any]:
    said = {**annotations, **({} if by is None else {SUBMITTED_BY: by})}
    return {"metadata": {"name": "a", **({"annotations": said} if said else {})}}


@pytest.mark.parametrize("before", [body(), body("eve"), body("ann"), body(team="a"), {"metadata": {"annotations": None}}])
def test_whoever_creates_it_is_written(before: dict[str, Any]) -> None:
    after = applied(before, submitters.stamp(before, "ann", ours=False))
    assert after["metadata"]["annotations"][SUBMITTED_BY] == "ann"
    assert submitters.validate(after, None, "ann", ours=False).allowed


def test_our_controllers_pass_on_what_the_owner_has() -> None:
    assert submitters.stamp(body("ann"), "system:serviceaccount:ours:controllers", ours=True) == []
    assert submitters.validate(body("ann"), None, "system:serviceaccount:ours:controllers", ours=True).allowed


@pytest.mark.parametrize(
    ("new", "old", "is_allowed"),
    [
        (body("ann"), body("ann"), True),
        (body(), body(), True),
        (body("eve"), body("ann"), False),
        (body(), body("ann"), False),
        (body("eve"), body(), False),
        (body("eve"), None, False),
        (body(), None, True),
    ],
)
def test_nobody_else_changes_it(new: dict[str, Any], old: dict[str, Any] | None, is_allowed: bool) -> None:
    verdict = submitters.validate(new, old, "ann", ours=False)
    assert verdict.allowed is is_allowed
    if not is_allowed:
        assert verdict.message.startswith("metadata.annotations[pyroclast.dev/submitted-by]: Forbidden: ")


@pytest.mark.parametrize("given", [body(), body(team="a"), {"metadata": {"annotations": None}}])
def test_an_update_that_leaves_it_out_keeps_it(given: dict[str, Any]) -> None:
    after = applied(given, submitters.restore(given, body("ann")))
    assert submitters.validate(after, body("ann"), "eve", ours=False).allowed


def test_an_update_restores_nothing_that_is_there_or_was_not() -> None:
    assert submitters.restore(body("eve"), body("ann")) == submitters.restore(body(), body()) == []


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("system:serviceaccount:ours:controllers", True),
        ("system:serviceaccount:ours-too:controllers", False),
        ("system:serviceaccount:theirs:controllers", False),
        ("ours", False),
        ("", False),
    ],
)
def test_who_is_ours(user: str, expected: bool) -> None:
    assert submitters.is_ours(user, "ours") is expected
    assert not submitters.is_ours(user, "")
