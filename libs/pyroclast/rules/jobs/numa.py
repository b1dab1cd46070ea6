"""Rules of NUMA placement: a task with a NUMA policy needs whole cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import invalid
from pyroclast.rules.values import items, mapping, text
from pyroclast.rules.verdicts import Finding, first_only, found

MILLIS_PER_CORE = 1000


def check_numa(task: Mapping[str, Any], index: int, path: str) -> Sequence[Finding]:
    """Return the faults of containers in the task at `path` that request no whole number of cores; Volcano reports only the
    first.
    """
    if text(task.get("topologyPolicy")) in ("", "none"):
        return ()
    return first_only(_check(mapping(mapping(task.get("template")).get("spec")), index, f"{path}.template.spec"))


def _check(pod: Mapping[str, Any], index: int, path: str) -> Iterator[Finding]:
    number = 0
    for part in ("containers", "initContainers"):
        for position, container in enumerate(items(pod.get(part))):
            resources = mapping(mapping(container).get("resources"))
            kind = "requests" if mapping(resources.get("requests")) else "limits"
            value = mapping(resources.get(kind)).get("cpu")
            cpu = amount(value)
            if cpu is None or cpu.millis <= 0 or cpu.millis % MILLIS_PER_CORE:
                sentence = f"the cpu request isn't an integer in spec.task[{index}] container[{number}]"
                where = f"{path}.{part}[{position}].resources.{kind}.cpu"
                yield found(f"{sentence}.", invalid(where, value, f"{sentence}; a NUMA policy needs whole cores"))
            number += 1
