"""The description of one Job and its events that `vcctl job view` and `vjobs -n` print."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.api.types import EVENTS, JOBS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.rules.jobs.arrays import number_of_pods
from pyroclast.views.readable import age
from pyroclast_cli.tree import text_of

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


_META: Final = 19  # the width of the labels of Metadata and Spec
LEVELS: Final = ("", "  ", "    ", "      ", "        ", "          ")
_OF_ARRAYS: Final = (
    ("Indexes", "indexes"),
    ("Max Parallel", "maxParallel"),
    ("Max Failures", "maxFailures"),
    ("Retries Per Index", "retriesPerIndex"),
    ("Cancelled", "cancelled"),
)
COUNTERS: Final = (
    ("Succeeded", "succeeded"),
    ("Pending", "pending"),
    ("Running", "running"),
    ("Failed", "failed"),
    ("Terminating", "terminating"),
    ("Unknown", "unknown"),
    ("RetryCount", "retryCount"),
    ("Min Available", "minAvailable"),
    ("Version", "version"),
)
CONTAINER_ANNOTATIONS: Final = (
    ("Cri . Cci . Io / Container - Type", "cri.cci.io/container-type"),
    ("Kubernetes . Io / Availablezone", "kubernetes.io/availablezone"),
    ("Network . Alpha . Kubernetes . Io / Network", "network.alpha.kubernetes.io/network"),
)


async def view_lines(client: Client, key: Key, *, with_conditions: bool) -> list[str]:
    """Return the lines of the description. If the events cannot be listed, a message is printed on standard error."""
    job = await client.get(JOBS, key)
    events: list[dict[str, Any]] = []
    try:
        listed, _ = await client.list(EVENTS, key.namespace)
        events = [event for event in listed if event["metadata"]["name"].startswith(f"{key.name}.")]
    except KubeError as error:
        sys.stderr.write(f"Failed to list events: {text_of(error)}\n")
    return [*job_lines(job, with_conditions=with_conditions), *event_lines(events, datetime.fromtimestamp(client.now(), UTC))]


def job_lines(job: Mapping[str, Any], *, with_conditions: bool) -> list[str]:
    """Return the lines of a Job without its events."""
    metadata, spec = job["metadata"], job.get("spec") or {}
    plugins = spec.get("plugins") or {}
    lines = [
        f"Name:       \t{metadata['name']}",
        f"Namespace:  \t{metadata['namespace']}",
        *_pairs("Labels:     ", metadata.get("labels")),
        *_pairs("Annotations:", metadata.get("annotations")),
        "API Version:\t",
        "Kind:       \t",
        "Metadata:",
        _line(1, "Creation Timestamp", _go_time(metadata.get("creationTimestamp")), _META),
        _line(1, "Generate Name", metadata.get("generateName", ""), _META),
        _line(1, "Generation", metadata.get("generation", 0), _META),
        _line(1, "Resource Version", metadata.get("resourceVersion", ""), _META),
        _line(1, "UID", metadata.get("uid", ""), _META),
        "Spec:",
        _line(1, "Min Available", spec.get("minAvailable", 0), _META),
        "  Plugins:",
        _line(2, "Env", _words(plugins.get("env"))),
        _line(2, "Ssh", _words(plugins.get("ssh"))),
        _line(1, "Scheduler Name", spec.get("schedulerName", ""), _META),
        "  Tasks:",
    ]
    for task in spec.get("tasks") or ():
        lines += _task_lines(task)
    return [*lines, *_status_lines(job.get("status") or {}, with_conditions=with_conditions)]


def _task_lines(task: Mapping[str, Any]) -> list[str]:
    template = task.get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    lines = [
        _line(2, "Name", task.get("name", "")),
        _line(2, "Replicas", number_of_pods(task)),
        *(_line(2, label, task["array"][field]) for label, field in _OF_ARRAYS if field in (task.get("array") or {})),
        "    Template:",
        "      Metadata:",
        "        Annotations:",
        *(_line(5, label, annotations.get(name, ""), 44) for label, name in CONTAINER_ANNOTATIONS),
        _line(4, "Creation Timestamp", _go_time(metadata.get("creationTimestamp"))),
        "      Spec:",
        "        Containers:",
    ]
    for container in spec.get("containers") or ():
        lines += _container_lines(container)
    lines.append("        Image Pull Secrets:")
    lines += [f"          Name:     \t{each.get('name', '')}" for each in spec.get("imagePullSecrets") or ()]
    return [*lines, _line(4, "Restart Policy", spec.get("restartPolicy", ""), 18)]


def _container_lines(container: Mapping[str, Any]) -> list[str]:
    resources = container.get("resources") or {}
    lines = ["          Command:", *(f"            {word}" for word in container.get("command") or ())]
    lines += [_line(5, "Image", container.get("image", "")), _line(5, "Name", container.get("name", ""), 6), "          Ports:"]
    for port in container.get("ports") or ():
        lines.append(f"            Container Port:\t{port.get('containerPort', 0)}")
        lines.append(f"            Name:          \t{port.get('name', '')}")
    lines.append("          Resources:")
    for label, field in (("Limits", "limits"), ("Requests", "requests")):
        amounts = resources.get(field) or {}
        lines += [
            f"            {label}:",
            f"              Cpu:   \t{amounts.get('cpu', '0')}",
            f"              Memory:\t{amounts.get('memory', '0')}",
        ]
    return [*lines, _line(5, "Working Dir", container.get("workingDir", ""))]


def _status_lines(status: Mapping[str, Any], *, with_conditions: bool) -> list[str]:
    lines = ["Status:", *(_line(1, label, status[field], 14) for label, field in COUNTERS if status.get(field, 0) > 0)]
    lines += ["  State:", _line(2, "Phase", (status.get("state") or {}).get("phase", ""))]
    if status.get("controlledResources"):
        lines.append("  Controlled Resources:")
        lines += [f"    {name}: \t{value}" for name, value in sorted(status["controlledResources"].items())]
    if with_conditions and status.get("conditions"):
        lines += ["  Conditions:", "    Status\tTransitionTime"]
        lines += [f"    {each.get('status', '')} \t{_go_time(each.get('lastTransitionTime'))} " for each in status["conditions"]]
    return lines


def event_lines(events: Sequence[Mapping[str, Any]], now: datetime) -> list[str]:
    """Return the table of events. Without events, return a line that says so."""
    if not events:
        return ["Events: \t<none>"]
    lines = ["Events:", _event("Type", "Reason", "Age", "Form", "Message")]
    lines.append(_event("-------", "-------", "-------", "-------", "-------"))
    for event in events:
        source = event.get("source") or {}
        first = age(event.get("firstTimestamp"), now, keeps_zero_days=True)
        last = age(event.get("lastTimestamp"), now, keeps_zero_days=True)
        count = event.get("count") or 0
        lines.append(
            _event(
                event.get("type", ""),
                event.get("reason", ""),
                f"{last} (x{count} over {first})" if count > 1 else first,
                ", ".join(each for each in (source.get("component", ""), source.get("host", "")) if each),
                str(event.get("message", "")).strip(),
            )
        )
    return lines


def _event(kind: str, reason: str, when: str, source: str, message: str) -> str:
    return f"{kind:<15}\t{reason:<40}\t{when:<30}\t{source:<40}\t{message}"


def _pairs(label: str, pairs: Mapping[str, str] | None) -> list[str]:
    return [f"{label}\t{orjson.dumps(pairs, option=orjson.OPT_SORT_KEYS).decode() if pairs else '<none>'}"]


def _line(level: int, label: str, value: object, width: int = 0) -> str:
    """Return a line with its label and the colon padded to `width`, which is that of the longest label of its block."""
    return f"{LEVELS[level]}{f'{label}:':<{width}}\t{value}"


def _words(arguments: Sequence[str] | None) -> str:
    return f"[{' '.join(arguments or ())}]"


def _go_time(timestamp: str | None) -> str:
    """Return a time in Go's format and in local time. Without a time, return Go's zero time, which is in year 1."""
    if not timestamp:
        return "0001-01-01 00:00:00 +0000 UTC"
    return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S %z %Z}"
