"""Compares the requests of a Job with its use, from the data of the recorder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.views.documents import Row
from pyroclast.views.readable import in_hours, is_in_mebibytes, readable

ENOUGH_SAMPLES: Final = 20
HEADROOM: Final = 1.25
WORTH: Final = 0.8
"""The largest ratio of advised to requested amount at which advice is given: it must save at least a fifth."""


def efficiency_rows(job: Mapping[str, Any]) -> list[Row]:
    """Return the requested and used amounts of a Job, by task and resource; None for what was not measured."""
    rows: list[Row] = []
    for task in (*job["tasks"], {"task": "all", "asked": job["asked"], "use": job.get("use")}):
        for resource, amount in task["asked"].items():
            use = (task.get("use") or {}).get(resource)
            rows.append(
                {"task": task["task"], "resource": resource, "askedHours": in_hours(resource, amount), **_used(resource, use)}
            )
    return rows


def _used(resource: str, use: Mapping[str, Any] | None) -> Row:
    if use is None:
        return {"usedHours": None, "peak": None, "peakPod": None, "efficiency": None}
    return {
        "usedHours": in_hours(resource, use["used"]),
        "peak": _whole(resource, use["peak"]),
        "peakPod": use["peakPod"],
        "efficiency": f"{use['used'] / use['of']:.0%}" if use["of"] else None,
    }


def _whole(resource: str, amount: float) -> str:
    """Return a readable form of an amount in the units of the recorder."""
    unit = "Mi" if is_in_mebibytes(resource) else "m"
    return readable(resource, f"{round(amount)}{unit}")


def advice_of(job: Mapping[str, Any]) -> str:
    """Return advice for smaller requests when even the peak of the pods was much lower; empty without enough measurements."""
    found = []
    for resource, use in (job.get("use") or {}).items():
        enough = use["peak"] * HEADROOM
        if use["samples"] >= ENOUGH_SAMPLES and 0 < enough < use["peakOf"] * WORTH:
            peak, asked, less = (_whole(resource, amount) for amount in (use["peak"], use["peakOf"], enough))
            found.append((enough / use["peakOf"], f"{resource}: at most {peak} of {asked} used; {less} would do"))
    return min(found)[1] if found else ""
