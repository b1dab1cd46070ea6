"""The accuracy of predicted start times, by queue. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from pyroclast_recorder.database.tables import Row

EVERY_SECONDS: Final = 3600
"""The least seconds between two predictions of a Job that count, so that each hour of waiting has the same weight."""

_BASIS: Final = re.compile(r"(\d{1,9}) (declared|from history|not known)")
_WORDS: Final = {"declared": "declared", "from history": "history", "not known": "unknown"}


class _Score(NamedTuple):
    actual: int
    row: Row


def prediction_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a row for each queue: the number of predictions, how many were right, and the width of the predicted intervals.

    `held` counts the starts inside of the interval from p10 to p90, `early` the starts before it, and `late` the starts after it.

    Args:
        rows: the predictions of started Jobs, with `queue` and with `actual`, the time of the start, ordered by Job and time.
    """
    by_queue: dict[str, list[_Score]] = defaultdict(list)
    job, counted_until = "", 0
    for row in rows:
        if row["job"] != job:
            job, counted_until = row["job"], 0
        if row["at"] < row["actual"] and row["at"] >= counted_until:  # later predictions belong to another try
            counted_until = row["at"] + EVERY_SECONDS
            by_queue[row["queue"] or ""].append(_Score(row["actual"], row))
    return [{"queue": queue, **_summed(scores)} for queue, scores in sorted(by_queue.items())]


def _summed(scores: Sequence[_Score]) -> dict[str, Any]:
    early = sum(score.actual < score.row["p10"] for score in scores)
    late = sum(score.actual > score.row["p90"] for score in scores)
    bases: Counter[str] = Counter()
    for score in scores:
        for count, words in _BASIS.findall(score.row["basis"] or ""):
            bases[_WORDS[words]] += int(count)
    return {
        "predictions": len(scores),
        "held": len(scores) - early - late,
        "early": early,
        "late": late,
        "p50WidthSeconds": int(median(score.row["p90"] - score.row["p10"] for score in scores)),
        "p50ErrorSeconds": int(median(abs(score.actual - score.row["p50"]) for score in scores)),
        "basis": dict(sorted(bases.items())),
    }
