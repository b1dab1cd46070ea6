"""One scheduling cycle: open a session over a snapshot, run the actions, close it. Pure: what it needs from outside are ports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from pyroclast_scheduler.cache.snapshot import Snapshot
from pyroclast_scheduler.framework.closing import close
from pyroclast_scheduler.framework.configuration import Configuration
from pyroclast_scheduler.framework.outcome import Outcome
from pyroclast_scheduler.framework.plugin import Action, PluginFactory
from pyroclast_scheduler.framework.session import Ports, Session

__all__ = ["run_cycle"]


def run_cycle(
    snapshot: Snapshot,
    configuration: Configuration,
    *,
    actions: Mapping[str, Action],
    plugins: Mapping[str, PluginFactory],
    ports: Ports,
    uid: str,
) -> Outcome:
    """Decide. Commits leave through the port as they are made; the outcome holds the rest."""
    session = Session(snapshot, configuration, plugins, ports, uid=uid)
    for name in configuration.actions:
        arguments = session.arguments_of(name)
        ports.observe(name, "action", partial(actions[name], session, arguments))
        session.warnings += [f"action {name}: {text}" for text in arguments.warnings]
    timestamp = datetime.fromtimestamp(ports.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return close(session, timestamp=timestamp)
