"""Who submitted an object is written once, and not forged."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.keys import SUBMITTED_BY
from pyroclast.rules import submitters
from pyroclast.rules.verdicts import applied


def body(by: str | None = None, **annotations: str) -> dict[str, Any]:
    said = {**annotations, **({} if by is None else {SUBMITTED_BY: by})}
    return {"metadata": {"name": "a", **({"annotations": said} if said else {})}}


@pytest.mark.parametrize("before", [body(), body("eve"), body("ann"), body(team="a"), {"metadata": {"annotations": None}}])
def test_submitter_annotation_is_set_to_the_creating_user(before: dict[str, Any]) -> None:
    after = applied(before, submitters.stamp(before, "ann", ours=False))
    assert after["metadata"]["annotations"][SUBMITTED_BY] == "ann"
    assert submitters.validate(after, None, "ann", ours=False).allowed


def test_submitter_annotation_written_by_our_controllers_is_kept() -> None:
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
def test_submitter_annotation_cannot_be_forged_changed_or_removed(
    new: dict[str, Any], old: dict[str, Any] | None, is_allowed: bool
) -> None:
    verdict = submitters.validate(new, old, "ann", ours=False)
    assert verdict.allowed is is_allowed
    if not is_allowed:
        assert verdict.message.startswith("metadata.annotations[pyroclast.dev/submitted-by]: Forbidden: ")


@pytest.mark.parametrize("given", [body(), body(team="a"), {"metadata": {"annotations": None}}])
def test_update_without_the_submitter_annotation_restores_it(given: dict[str, Any]) -> None:
    after = applied(given, submitters.restore(given, body("ann")))
    assert submitters.validate(after, body("ann"), "eve", ours=False).allowed


def test_submitter_annotation_is_not_restored_if_it_is_present_or_never_existed() -> None:
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
def test_our_controllers_are_service_accounts_of_our_namespace(user: str, expected: bool) -> None:
    assert submitters.is_ours(user, "ours") is expected
    assert not submitters.is_ours(user, "")
