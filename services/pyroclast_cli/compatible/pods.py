"""The command `vcctl pod list`, which lists the pods of Jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import PODS
from pyroclast.views.readable import age
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Leaf, original_group
from pyroclast_cli.views.output import padded

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


def pod_cells(pod: Mapping[str, Any], now: datetime) -> tuple[str, str, str]:
    """Return the ready, status and restart cells of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    init = spec.get("initContainers") or []
    sidecars = {each["name"] for each in init if each.get("restartPolicy") == "Always"}
    containers = status.get("containerStatuses") or []
    init_statuses = status.get("initContainerStatuses") or []
    is_ready = [each for each in containers if each.get("ready") and "running" in (each.get("state") or {})]
    is_ready += [each for each in init_statuses if each["name"] in sidecars and each.get("started") and each.get("ready")]
    total = len(spec.get("containers") or ()) + len(sidecars)
    word = _word(status)
    initializing = _initializing(init_statuses, sidecars, len(init))
    counted = [each for each in init_statuses if each["name"] in sidecars]
    if initializing:
        word, counted = initializing, init_statuses
    else:
        word, counted = _of_containers(word, containers, _is_true(status, "Ready")), [*counted, *containers]
    if pod["metadata"].get("deletionTimestamp"):
        word = "Unknown" if status.get("reason") == "NodeLost" else word if status.get("phase") in TERMINAL else "Terminating"
    return f"{len(is_ready)}/{total}", word, _restarts(counted, now)


def _word(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _initializing(statuses: Sequence[Mapping[str, Any]], sidecars: set[str], total: int) -> str:
    """Return the state of the first unfinished init container. Empty when all init containers have finished."""
    for i, each in enumerate(statuses):
        state = each.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if each["name"] in sidecars and each.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{i}/{total}"
    return ""


def _of_containers(word: str, statuses: Sequence[Mapping[str, Any]], is_pod_ready: bool) -> str:
    has_running = False
    for each in reversed(statuses):
        state = each.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif terminated is not None:
            word = _ended(terminated)
        elif each.get("ready") and "running" in state:
            has_running = True
    if word == "Completed" and has_running:
        return "Running" if is_pod_ready else "NotReady"
    return word


def _ended(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _restarts(statuses: Sequence[Mapping[str, Any]], now: datetime) -> str:
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = [((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for each in statuses]
    latest = max((end for end in ends if end), default=None)
    return f"{count} ({age(latest, now)} ago)" if count and latest else str(count)


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in status.get("conditions") or ())


QUEUE_LABEL: Final = "volcano.sh/queue-name"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
HEADER: Final = ("Name", "Ready", "Status", "Restart", "Age")


async def _list(context: Context) -> None:
    job, queue, everywhere = context.text("job"), context.text("queue"), context.is_set("all-namespaces")
    namespace = "" if everywhere else context.text("namespace")
    selector = f"{keys.JOB_NAME} in ({job})" if job else "" if queue else keys.JOB_NAME
    pods, _ = await context.client.list(PODS, namespace, label_selector=selector)
    if job and queue:
        if any(_mark(pod, QUEUE_LABEL) not in {"", queue} for pod in pods):
            raise Failure(f"the input vcjob {job} does not match the queue {queue}")
    elif queue:
        pods = [pod for pod in pods if queue in {_mark(pod, QUEUE_LABEL), _mark(pod, QUEUE_ANNOTATION, "annotations")}]
    if not pods:
        context.say("No resources found")
        return
    now = datetime.fromtimestamp(context.client.now(), UTC)
    pods.sort(key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
    rows = [(("Namespace",) if everywhere else ()) + HEADER]
    for pod in pods:
        metadata = pod["metadata"]
        leading = (metadata["namespace"],) if everywhere else ()
        rows.append((*leading, metadata["name"], *pod_cells(pod, now), age(metadata.get("creationTimestamp"), now)))
    columns = range(len(rows[0]))
    widths = [max(len(rows[0][column]) + 2, max(len(row[column]) for row in rows[1:]) + 8) for column in columns]
    for line in padded(rows, widths):
        context.say(line)


def _mark(pod: Mapping[str, Any], name: str, field: str = "labels") -> str:
    return str((pod["metadata"].get(field) or {}).get(name, ""))


POD: Final = original_group(
    "pod",
    "vcctl command line operation pod",
    Leaf(
        "list",
        "list pod information created by vcjob",
        _list,
        (
            Flag("queue", "q", "", "list pod with specified queue name"),
            Flag("job", "j", "", "list pod with specified job name"),
            Flag("namespace", "n", "default", "the namespace of pod"),
            Flag("all-namespaces", "", default=False, text="list pods in all namespaces", kind="bool"),
        ),
    ),
)
