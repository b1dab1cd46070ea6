"""What to ask Prometheus about the pods of a Job, and what its answers mean. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_recorder.facts.units import LARGEST, clipped

__all__ = ["METRICS", "BadAnswer", "Metric", "Round", "query_of", "read_answer", "rows_of"]

STEP_SECONDS: Final = 30
MOST_STEPS: Final = 500
"""Samples of a pod in one query, beyond which they are taken less often."""

PARTS: Final = {"mean": "avg_over_time", "p95": "quantile_over_time", "largest": "max_over_time", "samples": "count_over_time"}


class BadAnswer(Exception):
    """Prometheus gave nothing that can be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A resource, and the expression of its use by pod in the recorder's units; `{pods}` stands for which pods.

    `counter`: of what has been used in all, in units × seconds, where there is such a thing: it is exact between the samples.
    """

    resource: str
    gauge: str
    counter: str = ""


_CPU: Final = 'container_cpu_usage_seconds_total{{{pods},container!="",container!="POD"}}'
METRICS: Final = (
    Metric(
        "cpu",
        f"1000 * sum by (pod) (rate({_CPU}[2m]))",
        f"1000 * sum by (pod) (max_over_time({_CPU}[{{window}}s]))",
    ),
    Metric("memory", 'sum by (pod) (container_memory_working_set_bytes{{{pods},container!="",container!="POD"}}) / 1048576'),
    Metric("nvidia.com/gpu", "10 * sum by (pod) (DCGM_FI_DEV_GPU_UTIL{{{pods}}})"),
    Metric("nvidia.com/gpu-memory", "sum by (pod) (DCGM_FI_DEV_FB_USED{{{pods}}})"),
)
"""By the names of the kubelet (cAdvisor) and of the exporter of DCGM, whose memory is in MiB."""


@dataclass(frozen=True, slots=True)
class Round:
    """The pods of one try of a Job, by name: uid and the seconds for which it held what it asked for."""

    namespace: str
    begin: int
    end: int
    pods: Mapping[str, tuple[str, int]]


def query_of(metric: Metric, asked: Round) -> str:
    """One query for all pods of a round: each value carries its part, such as `mean`, as the label `part`."""
    window = max(1, asked.end - asked.begin)
    step = max(STEP_SECONDS, -(-window // MOST_STEPS))
    pods = f"namespace={_text(asked.namespace)},pod=~{_text('|'.join(map(re.escape, sorted(asked.pods))))}"
    gauge = f"({metric.gauge.format(pods=pods)})[{window}s:{step}s]"
    parts = {name: f"{how}({'0.95, ' if name == 'p95' else ''}{gauge})" for name, how in PARTS.items()}
    if metric.counter:
        parts["total"] = metric.counter.format(pods=pods, window=window)
    return " or ".join(f'label_replace({each}, "part", "{name}", "", "")' for name, each in parts.items())


def read_answer(answer: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401 - a JSON value
    """The parts by pod of an instant query; rows that make no sense are passed over.

    Raises:
        BadAnswer: the query failed, or the answer has another form.
    """
    if not isinstance(answer, dict) or answer.get("status") != "success":
        why = answer.get("error", "no reason given") if isinstance(answer, dict) else "the answer is no object"
        raise BadAnswer(f"the query failed: {str(why)[:300]}")
    data = answer.get("data")
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise BadAnswer("the query answered no vector")
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        try:
            pod, part, value = row["metric"]["pod"], row["metric"]["part"], float(row["value"][1])
        except (TypeError, KeyError, IndexError, ValueError):
            continue
        if math.isfinite(value) and value >= 0 and isinstance(pod, str) and isinstance(part, str):
            found[pod][part] = value
    return found


def rows_of(metric: Metric, asked: Round, values: Mapping[str, Mapping[str, float]]) -> Iterable[dict[str, Any]]:
    """The rows of `pod_use`; of pods that Prometheus knows nothing of there are none."""
    for name, parts in values.items():
        uid, seconds = asked.pods.get(name, ("", 0))
        samples = int(parts.get("samples", 0))
        if not uid or samples < 1 or not parts.keys() >= {"mean", "p95", "largest"}:
            continue
        mean = parts["total"] / max(1, seconds) if "total" in parts else parts["mean"]
        numbers = {"mean": mean, "p95": parts["p95"], "largest": parts["largest"]}
        yield {
            "pod": uid,
            "resource": clipped(metric.resource, 253),
            "since": asked.begin,
            "samples": samples,
            **{part: min(LARGEST, round(value)) for part, value in numbers.items()},
        }


def _text(value: str) -> str:
    """A string of PromQL, whose escapes are those of Go."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
