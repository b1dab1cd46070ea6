"""The outputs of the entries of a flow: what the pods of their Jobs put out, as JSON in the status of the flow.

The status has them as text. A JSON value in an object would be changed on its way: the API server drops nulls and rounds large
numbers, and a merge patch takes a null for a deletion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyroclast.api.records import FlowJobStatus, Job

MOST_BYTES: Final = 65_536
"""The most bytes of all outputs in the status of a flow. It is written with each change of a Job."""

_DEEPEST: Final = 30
"""The most nesting levels of a value; a deeper message is a text. Each level costs a frame of Python's stack."""


def outputs_of(job: Job) -> tuple[str, str]:
    """Return the outputs of a Job as JSON, and why they are left out; both are empty when its pods put out nothing.

    For a task of one pod, this is the value of the pod. For a task of several pods, it is the list of the values by index, with
    null for a pod without a value. For a Job of several tasks, it is a map from the names of tasks to their outputs.
    """
    if not job.status.outputs:
        return "", job.status.outputs_omitted
    by_task: dict[str, dict[int, Any]] = {}
    for each in job.status.outputs:
        by_task.setdefault(each.task, {})[each.index] = parsed(each.message)
    whole: dict[str, Any] = {}
    for number, task in enumerate(job.spec.tasks):
        name = task.name or f"default{number}"
        if found := by_task.get(name):
            length = max(task.replicas, max(found) + 1)
            if length > MOST_BYTES // len("null,"):
                return "", f"the list of the outputs of {length} pods would have more than {MOST_BYTES} bytes"
            whole[name] = found[0] if length == 1 else [found.get(index) for index in range(length)]
    if not whole:
        return "", ""
    value = next(iter(whole.values())) if len(job.spec.tasks) == 1 else whole
    return msgspec.json.encode(value).decode(), ""


def parsed(message: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a termination message: JSON if it parses and is not nested too deeply, else the text."""
    try:
        value = msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return message
    return value if _is_plain(value, _DEEPEST) else message


def _is_plain(value: Any, levels: int) -> bool:  # noqa: ANN401 - JSON
    """Whether expressions can read the value: its whole numbers have 64 bits, and it has at most so many levels."""
    match value:
        case dict():
            return levels > 0 and all(_is_plain(each, levels - 1) for each in value.values())
        case list():
            return levels > 0 and all(_is_plain(each, levels - 1) for each in value)
        case int():
            return -(2**63) <= value < 2**63
    return True


def bounded(rows: tuple[FlowJobStatus, ...], before: Mapping[str, FlowJobStatus]) -> tuple[FlowJobStatus, ...]:
    """Return the rows of a status with at most `MOST_BYTES` of outputs. Outputs that the status has `before` stay."""
    sizes = {row.name: len(msgspec.json.encode(row.outputs)) for row in rows if row.outputs}
    if sum(sizes.values()) <= MOST_BYTES:
        return rows
    kept = {row.name for row in rows if row.outputs and (old := before.get(row.name)) is not None and old.outputs == row.outputs}
    left = MOST_BYTES - sum(sizes[name] for name in kept)
    result = []
    for row in rows:
        size = sizes.get(row.name, 0)
        if size and row.name not in kept:
            if size > left:
                said = f"the outputs have {size} bytes, and those of the whole flow may have {MOST_BYTES}"
                row = msgspec.structs.replace(row, outputs="", outputs_omitted=f"{said}; write large results to a volume")
            else:
                left -= size
        result.append(row)
    return tuple(result)
