"""Rules for the dependencies between tasks of a Job: they must form a directed acyclic graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyroclast.rules.cycles import find_cycle
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.values import mapping, string_items, text
from pyroclast.rules.verdicts import Finding, found

NOT_A_GRAPH = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
MAX_ERRORS = 64
"""The most unknown names that are reported, which is the most that a response shows."""

_ITERATIONS = ("", "any", "all", "IterationAny", "IterationAll")


def check_dependencies(tasks: Sequence[Mapping[str, Any]], path: str) -> Sequence[Finding]:
    """Return the fault of tasks at `path` whose dependencies are unknown or form a cycle.

    A name listed twice is one dependency. A duplicate name of tasks is a fault; then only the dependencies of the first of these
    tasks are checked.
    """
    if not any("dependsOn" in task for task in tasks):
        return ()
    edges: dict[str, tuple[str, ...]] = {}
    positions: dict[str, int] = {}
    errors: list[FieldError] = []
    for index, task in enumerate(tasks):
        name = text(task.get("name"))
        if name not in edges:
            edges[name] = tuple(dict.fromkeys(_prerequisites(task)))
            positions[name] = index
        elif not errors:
            errors.append(invalid(f"{path}[{index}].name", name, f"{NOT_A_GRAPH}; it is the name of task {positions[name]} too"))
    for name, prerequisites in edges.items():
        for prerequisite in prerequisites:
            if prerequisite not in edges and len(errors) < MAX_ERRORS:
                where = f"{path}[{positions[name]}].dependsOn.name"
                errors.append(invalid(where, prerequisite, f"{NOT_A_GRAPH}; no task has this name"))
    if cycle := find_cycle(edges):
        where = f"{path}[{positions[cycle[0]]}].dependsOn.name"
        errors.append(invalid(where, cycle[1], f"{NOT_A_GRAPH}; {' waits for '.join(cycle)}"))
    return [found(f" {NOT_A_GRAPH};", *errors)] if errors else ()


def dependency_warnings(tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Yield warnings for dependencies whose effect differs from their text."""
    for index, task in enumerate(tasks):
        if "dependsOn" not in task:
            continue
        given = mapping(task["dependsOn"])
        iteration = text(given.get("iteration"))
        if iteration not in _ITERATIONS:
            yield f'{path}[{index}].dependsOn.iteration: "{iteration}" is neither any nor all, all is taken'
        names = _prerequisites(task)
        if len(set(names)) < len(names):
            yield f"{path}[{index}].dependsOn.name: a task named twice is one dependency"


def _prerequisites(task: Mapping[str, Any]) -> list[str]:
    return string_items(mapping(task.get("dependsOn")).get("name"))
