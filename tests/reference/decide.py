"""A case decided by the reference: one cycle, and what came of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from .actions import ACTIONS
from .model import PIPELINED, read
from .plugins import PLUGINS
from .session import Session


@dataclass
class Outcome:
    binds: dict[str, str]
    evicted: list[str]
    pipelined: dict[str, list[str]]
    held_back: list[str]
    is_doubtful: bool
    reserved: dict[str, tuple]


def decide(case) -> Outcome:
    profile = case["profile"]
    more = case.get("arguments", {})
    tiers = [[entry for listing in tier for entry in entries(listing, more)] for tier in profile["tiers"]]
    session = Session(read(case), tiers, profile["actions"], profile.get("actionArgs"))
    for action in profile["actions"]:
        ACTIONS[action](session)
    return Outcome(
        session.bound,
        sorted(task.name for task in session.evicted),
        {job.name: sorted(task.node for task in job.tasks if task.status == PIPELINED) for job in session.jobs.values()},
        sorted(row[0] for row in case["podgroups"] if row[0] not in session.jobs or session.jobs[row[0]].is_pending),
        session.is_doubtful,
        {
            name: (state["scope"], [lock["node"] for lock in state["locks"]], state["promise"], state["fill_until"])
            for tier in session.tiers
            for plugin, _ in tier
            for name, state in getattr(plugin, "states", {}).items()
        },
    )


def entries(listing, more):
    """Plugins as profiles write them: `name(argument=value, …): [flags]`; `more`: arguments by plugin."""
    for head, flags in listing.items():
        name, arguments = re.fullmatch(r"([\w-]+)(?:\((.*)\))?", head).groups()
        pairs = [pair.split("=") for pair in (arguments or "").split(",") if pair]
        yield PLUGINS[name], set(flags), {key.strip(): yaml.safe_load(value) for key, value in pairs} | more.get(name, {})
