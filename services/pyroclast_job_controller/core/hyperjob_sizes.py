"""Statuses of HyperJobs of thousands of Jobs: shortened so that they can be stored, and written by what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import HyperJob, JobState

__all__ = ["fitted", "status_patch"]

_MOST_STORED: Final = 1_400_000
"""Bytes of a HyperJob with its status: the store takes 1.5 MiB, with the object's metadata and conditions."""

_MOST_OPERATIONS: Final = 1000
"""Of one patch: with more the whole is as short, and the API server takes 10,000."""

_OPTIONAL: Final = ("message", "reason", "lastTransitionTime")
"""What the row of a Job may lack, in the order in which it is left out; the Job itself tells it."""

_ENDS: Final = frozenset(phase.value for phase in JobPhase if phase.is_finished)

Row: TypeAlias = dict[str, Any]
"""An entry of `replicatedJobsStatus`, as it goes over the wire."""


def fitted(hyper_job: HyperJob, rows: Sequence[Row]) -> list[Row]:
    """`rows` as far as the API server can store them: without messages, then without reasons, without times, and at last without
    Jobs that have not ended.
    """
    room = _MOST_STORED - len(msgspec.json.encode(hyper_job.spec))
    found = list(rows)
    for number in range(len(_OPTIONAL) + 1):
        if len(msgspec.json.encode(found)) <= room:
            return found
        found = [{**row, "jobStates": _shortened(row["jobStates"], _OPTIONAL[: number + 1])} for row in found]
    if len(msgspec.json.encode(found)) <= room:
        return found
    return [{**row, "jobStates": _ended(row["jobStates"])} for row in found]


def status_patch(hyper_job: HyperJob, body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The JSON patch that makes the status of `hyper_job` say `body`; None where so much is new that it is written as a whole."""
    status = hyper_job.status
    rows = body["replicatedJobsStatus"]
    if [row["name"] for row in rows] != [row.name for row in status.replicated_jobs_status]:
        return None
    found = [_set("/metadata/resourceVersion", hyper_job.metadata.resource_version)]  # another one is a conflict
    for place, (row, before) in enumerate(zip(rows, status.replicated_jobs_status, strict=True)):
        path = f"/status/replicatedJobsStatus/{place}"
        known = {name: _written(state) for name, state in before.job_states.items()}
        states = row["jobStates"]
        if known:
            found += [_set(f"{path}/jobStates/{name}", state) for name, state in states.items() if known.get(name) != state]
            found += [{"op": "remove", "path": f"{path}/jobStates/{name}"} for name in known.keys() - states.keys()]
        elif states:
            found.append(_set(f"{path}/jobStates", states))
        found += [
            _set(f"{path}/{key}", row[key]) for key in row.keys() - {"name", "jobStates"} if row[key] != getattr(before, key)
        ]
    for key in ("conditions", "splitCount", "observedGeneration"):
        found.append(_set(f"/status/{key}", body[key]))
    return found if len(found) <= _MOST_OPERATIONS else None


def _written(state: JobState) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(state).items() if value}


def _set(path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
    return {"op": "add", "path": path, "value": value}


def _shortened(states: Mapping[str, Mapping[str, Any]], without: Sequence[str]) -> dict[str, Any]:
    return {name: {key: value for key, value in state.items() if key not in without} for name, state in states.items()}


def _ended(states: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: state for name, state in states.items() if state["phase"] in _ENDS}
