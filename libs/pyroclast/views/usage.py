"""The use of Jobs, tasks, queues and nodes, compared with their requests: now, and over the life of a Job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.contract import Row
from pyroclast.views.readable import amount, in_hours, is_in_mebibytes, readable, sums_of

ENOUGH_SAMPLES: Final = 20
HEADROOM: Final = 1.25
WORTH: Final = 0.8
"""The largest ratio of advised to requested amount at which advice is given: it must save at least a fifth."""


def efficiency_rows(job: Mapping[str, Any]) -> list[Row]:
    """Return the requested and used amounts of a Job, by task and resource; None for what was not measured."""
    rows: list[Row] = []
    for task in (*job["tasks"], {"task": "all", "asked": job["asked"], "use": job.get("use")}):
        for resource, total in (task["asked"] or {}).items():
            use = (task.get("use") or {}).get(resource)
            rows.append(
                {"task": task["task"], "resource": resource, "askedHours": in_hours(resource, total), **_used(resource, use)}
            )
    return rows


def _used(resource: str, use: Mapping[str, Any] | None) -> Row:
    if use is None:
        return {"usedHours": None, "peak": None, "peakPod": None, "efficiency": None}
    return {
        "usedHours": in_hours(resource, use["used"]),
        "peak": recorded_amount(resource, use["peak"]),
        "peakPod": use["peakPod"],
        "efficiency": f"{use['used'] / use['of']:.0%}" if use["of"] else None,
    }


def recorded_amount(resource: str, amount: float) -> str:
    """Return a readable form of an amount in the units of the recorder."""
    unit = "Mi" if is_in_mebibytes(resource) else "m"
    return readable(resource, f"{round(amount)}{unit}")


def advice_of(job: Mapping[str, Any]) -> str:
    """Return advice for smaller requests when even the peak of the pods was much lower; empty without enough measurements."""
    advice = []
    for resource, use in (job.get("use") or {}).items():
        enough = use["peak"] * HEADROOM
        if use["samples"] >= ENOUGH_SAMPLES and 0 < enough < use["peakOf"] * WORTH:
            peak, asked, less = (recorded_amount(resource, amount) for amount in (use["peak"], use["peakOf"], enough))
            advice.append((enough / use["peakOf"], f"{resource}: at most {peak} of {asked} used; {less} would do"))
    return min(advice)[1] if advice else ""


SERIES: Final = ("guarantee", "deserved", "capability", "allocated", "requested", "waiting", "used")
"""The amounts of a queue in a series of the recorder."""


def queue_series_rows(answer: Mapping[str, Any]) -> list[Row]:
    """Return the series of queues as rows, one for each time, queue and resource of which something is known.

    `answer`: the answer of `/api/v1/series`. Amounts are readable; None for what is not known.
    """
    evictions = {each["queue"]: each["pods"] for each in answer["evictions"]}
    rows: list[Row] = []
    for number, at in enumerate(answer["times"]):
        for each in answer["queues"]:
            queue, resource = each["queue"], each["resource"]
            amounts = {name: each[name][number] for name in SERIES}
            if any(value is not None for value in amounts.values()):
                shown = {name: None if value is None else recorded_amount(resource, value) for name, value in amounts.items()}
                lost = evictions.get(queue)
                evicted = None if lost is None else lost[number]
                rows.append({"at": at, "queue": queue, "resource": resource, **shown, "evictions": evicted})
    return rows


def node_series_rows(answer: Mapping[str, Any]) -> list[Row]:
    """Return the series of nodes as rows: the number of nodes and their amounts of each resource, each with the part away."""
    return [
        {
            "at": at,
            "resource": each["resource"] or "nodes",
            **{name: recorded_amount(each["resource"], value) for name, value in told},
        }
        for number, at in enumerate(answer["times"])
        for each in answer["nodes"]
        if (told := [(name, each[name][number]) for name in ("total", "away") if each[name][number] is not None])
    ]


Document = Mapping[str, Any]
AT_WORK = frozenset({"Running"})


@dataclass(frozen=True, slots=True)
class Usage:
    """Measured use, of pods by namespace and name, and of nodes by name; None when nothing is measured."""

    pods: Mapping[tuple[str, str], Mapping[str, Quantity]] | None
    nodes: Mapping[str, Mapping[str, Quantity]] | None = None

    @classmethod
    def of(cls, pods: Iterable[Document] | None, nodes: Iterable[Document] | None = None) -> Usage:
        """Return the use in PodMetrics and NodeMetrics, the objects of the metrics API."""
        by_pod = None if pods is None else {_key(each): sums_of(map(_usage, each.get("containers") or ())) for each in pods}
        by_node = None if nodes is None else {each["metadata"]["name"]: _usage(each) for each in nodes}
        return cls(by_pod, by_node)


@dataclass(slots=True)
class _Sum:
    """The pods of one row. `is_measured`: whether the use of at least one pod is known."""

    pods: int = 0
    asked: dict[str, Quantity] = field(default_factory=dict)
    used: dict[str, Quantity] = field(default_factory=dict)
    is_measured: bool = False

    def add(self, pod: Document, used: Mapping[str, Quantity] | None) -> None:
        """Add one pod to the sums; `used` is None when its use is not measured."""
        self.pods += 1
        self.asked = sums_of([self.asked, effective(pod["spec"], "requests")])
        if used is not None:
            self.used, self.is_measured = sums_of([self.used, used]), True

    def row(self, **names: str | None) -> Row:
        """Return these sums as a table row in the form of `-o json`."""
        return {**names, "pods": self.pods, **_measures(self.asked, self.used if self.is_measured else None)}


def job_usage(pods: Iterable[Document], usage: Usage) -> list[Row]:
    """Return for each Job the requests of its pods and the measured usage."""
    return _rows(pods, usage, lambda pod: {"namespace": _namespace(pod), "name": _label(pod, keys.JOB_NAME)})


def task_usage(pods: Iterable[Document], usage: Usage) -> list[Row]:
    """Return a row for each task of a Job."""
    return _rows(
        pods,
        usage,
        lambda pod: {
            "namespace": _namespace(pod),
            "name": f"{_label(pod, keys.JOB_NAME)}/{_label(pod, keys.TASK_SPEC)}",
            "job": _label(pod, keys.JOB_NAME),
            "task": _label(pod, keys.TASK_SPEC),
        },
    )


def queue_usage(pods: Iterable[Document], queues: Mapping[tuple[str, str], str], usage: Usage) -> list[Row]:
    """Return a row for each queue. `queues`: the queue of each Job, by namespace and name of the Job."""
    return _rows(pods, usage, lambda pod: {"name": queues.get((_namespace(pod), _label(pod, keys.JOB_NAME)), "default")})


def node_usage(nodes: Iterable[Document], pods: Iterable[Document], usage: Usage) -> list[Row]:
    """Return a row for each node: the used fraction of its allocatable resources."""
    counts: dict[str, int] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName") or ""
        counts[name] = counts.get(name, 0) + 1
    rows: list[Row] = []
    for node in nodes:
        name = node["metadata"]["name"]
        has = {resource: amount(value) for resource, value in ((node.get("status") or {}).get("allocatable") or {}).items()}
        used = (usage.nodes or {}).get(name)
        rows.append({"name": name, "pods": counts.get(name, 0), **_measures(has, used)})
    return sorted(rows, key=lambda row: str(row["name"]))


def _rows(pods: Iterable[Document], usage: Usage, names_of: Callable[[Document], dict[str, str]]) -> list[Row]:
    sums: dict[tuple[str, ...], tuple[dict[str, str], _Sum]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in AT_WORK:
            continue
        names = names_of(pod)
        _, total = sums.setdefault(tuple(names.values()), (names, _Sum()))
        total.add(pod, None if usage.pods is None else usage.pods.get(_key(pod)))
    return [total.row(**names) for _, (names, total) in sorted(sums.items(), key=lambda each: each[0])]


def _measures(asked: Mapping[str, Quantity], used: Mapping[str, Quantity] | None) -> Row:
    """Return used amounts with their ratio to the requested amounts; None for what is not measured."""
    devices = sums_of([{"all": value} for name, value in asked.items() if "/" in name]).get("all")
    row: dict[str, Any] = {"gpu": None, "gpuPercent": None, "gpuAsked": str(devices) if devices else None}
    for resource in ("cpu", "memory"):
        value, whole = (used or {}).get(resource), asked.get(resource)
        row[resource] = None if value is None else str(value)
        row[f"{resource}Asked"] = None if whole is None else str(whole)
        row[f"{resource}Percent"] = round(100 * float(value) / float(whole)) if value is not None and whole else None
    return row


def _usage(metrics: Document) -> dict[str, Quantity]:
    return {name: amount(value) for name, value in (metrics.get("usage") or {}).items()}


def _key(thing: Document) -> tuple[str, str]:
    return _namespace(thing), str(thing["metadata"]["name"])


def _namespace(thing: Document) -> str:
    return str(thing["metadata"].get("namespace", ""))


def _label(pod: Document, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name, ""))
