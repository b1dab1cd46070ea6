"""Tables of deviceshare: which card a pod gets, and which it may not share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pyroclast.api import records
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, matching, rules_of, usable
from pyroclast_scheduler.plugins.deviceshare.vgpu import GpuShare
from pyroclast_scheduler.session.node_books import Refused

from .plugin_tables import compared
from .runner import Result


def shared(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Cards of which parts of the memory are given away."""
    for number, row in enumerate(case["rows"], 1):
        given = row.get("cards") or [row["card"]]
        cards = [_card(str(at), at, each["memory"], each["used"]) for at, each in enumerate(given)]
        label = f"{name}.{number}"
        if "idle" in row:
            yield compared(label, "idle", cards[0].idle_memory, row["idle"])
        else:
            picked = _picked(cards, row["request"])
            key = "picked" if "picked" in row else "fits"
            yield compared(label, key, picked if key == "picked" else picked is not None, row[key])


def _card(name: str, index: int, memory: int, used: list[int]) -> Card:
    return Card(name, index, memory, users={f"u{at}": [CardShare(name, amount)] for at, amount in enumerate(used)})


def _picked(cards: list[Card], request: int) -> int | None:
    limits = {"volcano.sh/gpu-memory": str(request)}
    pod = msgspec.convert({"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}, records.Pod)
    try:
        (part,) = GpuShare(by_number=False).choose(pod, records.Node(), cards).parts
    except Refused:
        return None
    return int(part.card)


def exclusive(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Cards that are left where rules keep pods apart."""
    for number, row in enumerate(case["rows"], 1):
        rules = rules_of(row["rules"])
        own = matching(rules, row["new"])
        label = f"{name}.{number}"
        if "matches" in row:
            yield compared(label, "matches", bool(own), row["matches"])
            continue
        cards = [Card(each, at, 8) for at, each in enumerate(row["cards"])]
        rules_by_pod = {}
        for at, pod in enumerate(row["pods"]):
            next(card for card in cards if card.name == pod["holds"]).users[f"u{at}"] = []
            rules_by_pod[f"u{at}"] = matching(rules, pod["labels"])
        yield compared(label, "usable", [card.name for card in usable(cards, own, rules_by_pod)], row["usable"])
