"""Rules by which matching pods never share a card with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroclast_scheduler.plugins.deviceshare.cards import Card

Rule = Mapping[str, str]  # labels that a pod must have


def rules_of(given: Any) -> list[Rule]:  # noqa: ANN401 - a YAML value
    """Return the rules of a configuration. Empty rules, and values that are no text, are left out."""
    if not isinstance(given, list):
        return []
    found = [
        {str(key): value for key, value in each.items() if isinstance(value, str)} for each in given if isinstance(each, dict)
    ]
    return [rule for rule in found if rule]


def matching(rules: Sequence[Rule], labels: Mapping[str, str]) -> set[int]:
    """Return the numbers of the rules that match a pod with these labels."""
    return {number for number, rule in enumerate(rules) if all(labels.get(key) == value for key, value in rule.items())}


def usable(cards: Iterable[Card], own: set[int], rules_by_pod: Mapping[str, set[int]]) -> list[Card]:
    """Return the cards that have no user which matches one of the rules `own`. A divided card (MIG) is always usable."""

    def is_shared(card: Card) -> bool:
        return not card.geometries and any(own & rules_by_pod.get(uid, set()) for uid in card.users)

    return [card for card in cards if not is_shared(card)] if own else list(cards)
