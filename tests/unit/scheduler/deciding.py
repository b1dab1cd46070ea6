"""One session over a cache, with all actions and plugins to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration, parse
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import Ports
from tests.scenarios import objects


def configured(text: str, plugins: Mapping[str, Any] | None = None) -> Configuration:
    """The configuration that a text says. `plugins`: others than all of ours."""
    return parse(text, actions=registry.actions(), plugins=plugins or registry.plugins())


def one_tier(plugins: Iterable[str], actions: str = "enqueue, allocate, backfill") -> Configuration:
    """A configuration with these plugins in one tier: names, or mappings in YAML's short form where they have arguments."""
    entries = ", ".join(each if each.startswith("{") else f"{{name: {each}}}" for each in plugins)
    return configured(f'actions: "{actions}"\ntiers:\n- plugins: [{entries}]\n')


def committed(
    over: Cache | Snapshot,
    configuration: Configuration,
    *,
    now: float = objects.NOW,
    plugins: Mapping[str, Any] | None = None,
    **ports: Any,
) -> tuple[Outcome, list[Commit]]:
    """What a session decides, and what leaves it. The cache knows of nothing of it. `ports`: more of those of the session."""
    commits: list[Commit] = []
    outcome = run_cycle(
        over.snapshot() if isinstance(over, Cache) else over,
        configuration,
        actions=registry.actions(),
        plugins=plugins or registry.plugins(),
        ports=Ports(now, commits.append, **ports),
        uid="u",
    )
    return outcome, commits


def placed(commits: Iterable[Commit]) -> dict[str, str]:
    """What is bound: nodes by UID of the pod."""
    return {uid: node for commit in commits for each in commit.binds for uid, node in each.placed}


def evicted(commits: Iterable[Commit]) -> list[str]:
    """The names of the pods that are evicted."""
    return [each.task.name for commit in commits for each in commit.evictions]


def decided(over: Cache | Snapshot, configuration: Configuration, **given: Any) -> tuple[Outcome, dict[str, str]]:
    """What a session decides, and what it binds: nodes by UID of the pod. `given`: as to `committed`."""
    outcome, commits = committed(over, configuration, **given)
    return outcome, placed(commits)
