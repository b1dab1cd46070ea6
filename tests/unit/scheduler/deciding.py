"""One session over a cache, with all actions and plugins to choose from."""

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import Ports
from tests.scenarios import objects

__all__ = ["committed", "decided"]


def committed(cache: Cache, configuration: Configuration) -> tuple[Outcome, list[Commit]]:
    """What a session decides, and what leaves it. The cache knows of nothing of it."""
    commits: list[Commit] = []
    outcome = run_cycle(
        cache.snapshot(),
        configuration,
        actions=registry.actions(),
        plugins=registry.plugins(),
        ports=Ports(objects.NOW, commits.append),
        uid="u",
    )
    return outcome, commits


def decided(cache: Cache, configuration: Configuration) -> tuple[Outcome, dict[str, str]]:
    """What a session decides, and what it binds: nodes by UID of the pod. The cache knows of nothing of it."""
    outcome, commits = committed(cache, configuration)
    return outcome, {uid: node for commit in commits for each in commit.binds for uid, node in each.placed}
