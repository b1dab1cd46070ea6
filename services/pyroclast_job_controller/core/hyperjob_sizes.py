"""Shortens the status of a HyperJob with thousands of Jobs so that it can be stored, and computes small status patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import HyperJob, JobState

_MOST_STORED: Final = 1_400_000
"""Most bytes of a HyperJob's spec and rows. The store accepts 1.5 MiB, which includes the metadata and conditions."""

_MOST_OPERATIONS: Final = 1000
"""Most operations in one patch. A larger patch is as long as the whole status. The API server accepts 10,000 operations."""

_OPTIONAL: Final = ("message", "reason", "lastTransitionTime")
"""The fields that are omitted from the state of a Job, in this order. The Job itself has them."""

_ENDS: Final = frozenset(phase.value for phase in JobPhase if phase.is_finished)

Row: TypeAlias = dict[str, Any]
"""A row of `replicatedJobsStatus` in its JSON form."""


def fitted(hyper_job: HyperJob, rows: Sequence[Row]) -> list[Row]:
    """Return `rows` in the longest form that the API server can store.

    First the messages are omitted, then the reasons, then the times, and at last the Jobs that have not ended.
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
    """Return the JSON patch that changes the status of `hyper_job` to `body`. None when the whole status must be written."""
    status = hyper_job.status
    rows = body["replicatedJobsStatus"]
    if [row["name"] for row in rows] != [row.name for row in status.replicated_jobs_status]:
        return None
    # the API server answers with a conflict if the object has another version
    found = [_set("/metadata/resourceVersion", hyper_job.metadata.resource_version)]
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
