"""Where an added plugin goes in a profile."""

from __future__ import annotations

from random import Random


def put(random: Random, case: dict, name: str, flags: list[str], arguments: dict | None = None) -> None:
    """Into some tier, at some place."""
    tier = random.choice(case["profile"]["tiers"])
    tier.insert(random.randint(0, len(tier)), {name: flags})
    if arguments:
        case.setdefault("arguments", {})[name] = arguments


def options(row: list) -> dict:
    """The options of a pod, to be changed."""
    return row[5]
