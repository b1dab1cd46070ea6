"""Which rules are more than somebody has."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_standalone.apiserver.escalation import missing_rules


def _rule(verbs: str, resources: str = "", group: str = "", **more: list[str]) -> dict[str, Any]:
    rule: dict[str, Any] = {"verbs": verbs.split(), **more}
    return {**rule, "apiGroups": [group], "resources": resources.split()} if resources else rule


CASES = {
    "nothing is wanted": ([], [], []),
    "nothing is held": ([], [_rule("get", "pods")], [_rule("get", "pods")]),
    "a verb is missing": ([_rule("get", "pods")], [_rule("get list", "pods")], [_rule("list", "pods")]),
    "two rules together": ([_rule("get", "pods"), _rule("list", "pods")], [_rule("get list", "pods")], []),
    "everything": ([_rule("*", "*", "*")], [_rule("get", "pods", "apps"), _rule("*", "*/scale", "x")], []),
    "a subresource of any": ([_rule("get", "*/log")], [_rule("get", "pods/log pods")], [_rule("get", "pods")]),
    "another group": ([_rule("get", "pods")], [_rule("get", "pods", "x")], [_rule("get", "pods", "x")]),
    "one name of all": ([_rule("get", "pods")], [_rule("get", "pods", resourceNames=["a"])], []),
    "all names of one": ([_rule("get", "pods", resourceNames=["a"])], [_rule("get", "pods")], [_rule("get", "pods")]),
    "a path below": (
        [_rule("get", nonResourceURLs=["/api/*"])],
        [_rule("get", nonResourceURLs=["/api/x", "/apis"])],
        [_rule("get", nonResourceURLs=["/apis"])],
    ),
}


@pytest.mark.parametrize(("held", "wanted", "want_missing"), CASES.values(), ids=CASES.keys())
def test_missing_rules(held: list[Any], wanted: list[Any], want_missing: list[Any]) -> None:
    assert missing_rules(held, wanted) == want_missing
