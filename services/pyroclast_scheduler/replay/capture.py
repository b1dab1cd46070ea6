"""Captures the input of the next session. It runs on the thread of the cache, and the result is independent of the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast.lifecycle.gang.groups import volcano_record
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.job_entries import Entry
from pyroclast_scheduler.replay.state import Circumstances, State
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import Ports


def taken(cache: Cache, configuration: Configuration, ports: Ports) -> State:
    """Return the state of `cache`, together with the configuration and the ports for its decision."""
    cache.placed()  # updates the table of jobs and their problems
    table, entries = cache.nodes, cache.jobs.entries
    stated = (entry for key, entry in entries.items() if entry.source is None and key not in cache.jobs.problems)
    return State(
        configuration,
        circumstances(ports),
        *cache.settings,
        dimensions=tuple(cache.dimensions.names),
        rows=tuple(name for name in table.names if name in table.rows),
        nodes=tuple(node for node in table.records if node is not None),
        queues=tuple(queue.record for queue in cache.queues.values()),
        priorities=tuple(cache.priorities.values()),
        groups=tuple(volcano_record(group) for entry in stated if (group := entry.current) is not None and not group.is_on_pod),
        pods=tuple(task.pod for task in cache.tasks.values()),
        objects={record.__name__: tuple(found.values()) for record, found in cache.objects.view().found.items()},
        assumed={uid: (each.kind.value, each.node) for uid, each in cache.assumptions.all() if uid in cache.tasks},
        held=cache.holds.held.copy(),
        refused=cache.holds.refused.copy(),
        strangers=_strangers(entries.values()),
        native_groups=tuple(cache.natives.records()),
        composite_groups=tuple(cache.natives.trees.records()),
        statuses={key: each.believed for key, each in entries.items() if each.believed is not None and _is_in_memory(each)},
        queues_of_jobs=dict(cache.natives.queues.by_job),
        queues_of_namespaces=dict(cache.natives.queues.by_namespace),
        problems=cache.problems,
        undecodable_nodes={key.name: why for key, why in cache.undecodable_nodes.items()},
    )


def _is_in_memory(entry: Entry) -> bool:
    """Whether no object has the status of the group."""
    return entry.source is not None or (entry.group is not None and entry.group.is_on_pod)


def _strangers(entries: Iterable[Entry]) -> dict[str, dict[str, str]]:
    """Return the schedulers of pending pods of other schedulers, by group and UID."""
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        for uid, each in entry.strangers.items():
            found.setdefault(each.group, {})[uid] = each.scheduler
    return found


def circumstances(ports: Ports) -> Circumstances:
    """Return the values of `ports` that can be stored in a capture."""
    memory, unwritten = _written(ports.memory)
    return Circumstances(
        ports.now,
        ports.period,
        ports.scheduler,
        None if ports.shard is None else tuple(sorted(ports.shard.nodes)),
        is_hard=ports.shard is not None and ports.shard.is_hard,
        usage=ports.usage.usage(),
        memory=memory,
        unwritten=unwritten,
        reservations=ports.reservations,
        elsewhere=ports.elsewhere,
    )


def _written(memory: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return copies of the plugins' memory, and the names of values that cannot be stored. Derived values are left out."""
    plain: dict[str, Any] = {}
    others: list[str] = []
    for name, value in memory.copy().items() if isinstance(memory, dict) else memory.items():
        if isinstance(value, dict):
            plain[name] = value.copy()
        elif value is None or isinstance(value, str | int | float | list | tuple):
            plain[name] = value
        elif not getattr(value, "is_derived", False):
            others.append(name)
    return plain, tuple(others)
