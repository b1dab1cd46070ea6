"""The table of Jobs that `vcctl job list` and `vjobs` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pyroclast_cli.tables import padded

COLUMNS: Final = (
    ("Creation", 15),
    ("Phase", 12),
    ("JobType", 12),
    ("Replicas", 12),
    ("Min", 6),
    ("Pending", 10),
    ("Running", 10),
    ("Succeeded", 12),
    ("Failed", 10),
    ("Unknown", 12),
    ("RetryCount", 10),
)
COUNTERS: Final = ("minAvailable", "pending", "running", "succeeded", "failed", "unknown", "retryCount")
JOB_TYPE: Final = "volcano.sh/job-type"
GAP: Final = 3


def job_table(
    jobs: Sequence[Mapping[str, Any]], *, with_namespace: bool, measured: Sequence[Mapping[str, Any]] | None = None
) -> list[str]:
    """Return the lines of the table. The first columns are as wide as their values in `measured`, by default in `jobs`."""
    leading = (("Namespace", "namespace"), ("Name", "name")) if with_namespace else (("Name", "name"),)
    all_jobs = jobs if measured is None else measured
    widths = [max(len(header), *(len(job["metadata"][key]) for job in all_jobs)) + GAP for header, key in leading]
    rows = [[*(header for header, _ in leading), *(header for header, _ in COLUMNS)]]
    rows += [[*(job["metadata"][key] for _, key in leading), *_cells(job)] for job in jobs]
    return padded(rows, [*widths, *(width for _, width in COLUMNS)])


def _cells(job: Mapping[str, Any]) -> list[str]:
    metadata, status = job["metadata"], job.get("status") or {}
    created = datetime.fromisoformat(metadata["creationTimestamp"]).astimezone()
    replicas = sum(task.get("replicas", 0) for task in job.get("spec", {}).get("tasks") or ())
    return [
        f"{created:%Y-%m-%d}",
        (status.get("state") or {}).get("phase", ""),
        (metadata.get("labels") or {}).get(JOB_TYPE) or "Batch",
        str(replicas),
        *(str(status.get(counter, 0)) for counter in COUNTERS),
    ]
