"""The queries to Prometheus about the pods of a Job, and the parsing of the responses. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_recorder.facts.units import LARGEST, clipped

STEP_SECONDS: Final = 30
MOST_STEPS: Final = 500
"""The most samples of a pod in one query. For longer runs, the step between samples is longer."""

PARTS: Final = {"mean": "avg_over_time", "p95": "quantile_over_time", "largest": "max_over_time", "samples": "count_over_time"}


class BadAnswer(Exception):
    """The response of Prometheus cannot be used; the text names the fault."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A resource, and the PromQL expressions of its use by pod.

    `gauge`: the present use in the units of the recorder; `{pods}` is replaced by the selector of the pods. `counter`: the total
    use in units × seconds, which is exact between samples; empty when there is no such metric.
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
"""The metrics of the kubelet (cAdvisor) and of the DCGM exporter, whose memory is in MiB."""


@dataclass(frozen=True, slots=True)
class Round:
    """The pods of one try of a Job, for one query.

    `begin` and `end`: the start of the first pod and the end of the last pod. `pods`: the uid of each pod, and the seconds for
    which the pod held its requests, by name.
    """

    namespace: str
    begin: int
    end: int
    pods: Mapping[str, tuple[str, int]]


def query_of(metric: Metric, asked: Round) -> str:
    """Return one query for all pods of a round. The label `part` of each value names its statistic, such as `mean`."""
    window = max(1, asked.end - asked.begin)
    step = max(STEP_SECONDS, -(-window // MOST_STEPS))
    pods = f"namespace={_text(asked.namespace)},pod=~{_text('|'.join(map(re.escape, sorted(asked.pods))))}"
    gauge = f"({metric.gauge.format(pods=pods)})[{window}s:{step}s]"
    parts = {name: f"{how}({'0.95, ' if name == 'p95' else ''}{gauge})" for name, how in PARTS.items()}
    if metric.counter:
        parts["total"] = metric.counter.format(pods=pods, window=window)
    return " or ".join(f'label_replace({each}, "part", "{name}", "", "")' for name, each in parts.items())


def read_answer(answer: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401 - a JSON value
    """Return the statistics of each pod from the response to an instant query, by pod. Invalid rows are ignored.

    Raises:
        BadAnswer: the query failed, or the response has another form.
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
    """Yield the rows of `pod_use` for the statistics `values`. Pods without data in Prometheus have no row."""
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
    """Return a PromQL string literal, with the escapes of Go."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
