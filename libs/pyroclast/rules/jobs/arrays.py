"""Rules for arrays: their indexes and their number of pods. The cost grows with the text of the indexes, not with the number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import indexes
from pyroclast.resources.indexes import Ranges
from pyroclast.rules.errors import FieldError, forbidden, invalid, required
from pyroclast.rules.values import integer, mapping, mappings, optional_integer, string_items, text
from pyroclast.rules.verdicts import Finding, untold

MOST_INDEXES: Final = 100_000
"""The most indexes of an array with `maxParallel`; without it, all pods may exist at once, and the limit of pods applies."""

PER_CENT: Final = "(100|[0-9]{1,2})%"

NO_INDEXES: Final = "an array has indexes, such as 0-9"
NOT_ASCENDING: Final = "indexes of an array must ascend"
TOO_MANY_INDEXES: Final = f"an array may have at most {MOST_INDEXES} indexes"
NOT_BOTH: Final = "an array has neither replicas nor partitions"
NOT_A_LIMIT: Final = "maxFailures is a number that is not negative, or a per cent up to 100%"
NOT_EXTENDED: Final = "indexes of an array may only be added after the last; array.cancelled takes indexes out"
IGNORED: Final = ("PodFailed", "PodEvicted", "TaskFailed", "*")
"""Events to which policies do not respond if the pods of the task are independent."""


def ranges_of(task: Mapping[str, Any]) -> Ranges:
    """Return the indexes of an array task; nothing for another task, or when they cannot be read."""
    return indexes.lenient(text(mapping(task.get("array")).get("indexes")))


def number_of_pods(task: Mapping[str, Any]) -> int:
    """Return how many pods `task` has in all; 1 for an array whose indexes cannot be read, which is a fault of its own."""
    return max(1, indexes.number(ranges_of(task))) if "array" in task else integer(task.get("replicas"))


def pods_at_once(task: Mapping[str, Any]) -> int:
    """Return how many pods of `task` may exist at the same time."""
    total, most = number_of_pods(task), optional_integer(mapping(task.get("array")).get("maxParallel"))
    return total if most is None else min(most, total)


def pods_end(task: Mapping[str, Any]) -> int:
    """Return the number above the highest index of the pods of `task`."""
    ranges = ranges_of(task)
    return ranges[-1][-1] + 1 if ranges else integer(task.get("replicas"))


def check_array(task: Mapping[str, Any], path: str) -> Sequence[Finding]:
    """Return the faults of `array` of the task at `path`."""
    return [untold(error) for error in _errors(task, f"{path}.array")] if isinstance(task.get("array"), dict) else ()


def _errors(task: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    array = mapping(task["array"])
    if not text(array.get("indexes")):
        yield required(f"{path}.indexes", NO_INDEXES)
    for field in ("indexes", "cancelled"):
        try:
            ranges = indexes.parse(given) if (given := text(array.get(field))) else ()
        except ValueError as error:
            yield invalid(f"{path}.{field}", given[:60], f"{NOT_ASCENDING}; {error}")
            continue
        if field == "indexes" and (total := indexes.number(ranges)) > MOST_INDEXES and array.get("maxParallel") is not None:
            yield invalid(f"{path}.{field}", given[:60], f"{TOO_MANY_INDEXES}; these are {total}")
    if integer(task.get("replicas")) or task.get("partitionPolicy"):
        yield forbidden(path, NOT_BOTH)
    limit = array.get("maxFailures")
    is_limit = type(limit) is int and limit >= 0
    if limit is not None and not is_limit and not re.fullmatch(PER_CENT, text(limit)):
        yield invalid(f"{path}.maxFailures", limit, NOT_A_LIMIT)


def check_change(task: Mapping[str, Any], before: Mapping[str, Any], path: str) -> Sequence[Finding]:
    """Return the faults of a change from `before` to the array task at `path`."""
    if "array" not in task or "array" not in before:
        return ()
    given = text(mapping(task["array"]).get("indexes"))
    faults = list(check_array(task, path))
    if not faults and not indexes.extends(ranges_of(task), ranges_of(before)):
        faults.append(untold(invalid(f"{path}.array.indexes", given[:60], NOT_EXTENDED)))
    return faults


def array_warnings(spec: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Yield a warning for policies that do not apply to the pods of a task because they are independent."""
    own = [(index, task) for index, task in enumerate(tasks) if "array" in task or task.get("independentPods") is True]
    names = ", ".join(text(task.get("name")) for _, task in own[:3])
    lists = [(f"{path}.tasks[{index}].policies", task.get("policies")) for index, task in own]
    for place, policies in (*([(f"{path}.policies", spec.get("policies"))] if own else []), *lists):
        for index, policy in mappings(policies):
            events = {text(policy.get("event")), *string_items(policy.get("events"))}
            if events.intersection(IGNORED) or policy.get("exitCode") is not None:
                yield f"{place}[{index}]: it does not respond to the pods of task {names}, which are independent of each other"
