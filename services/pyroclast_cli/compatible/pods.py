"""The command `vcctl pod list`, which lists the pods of Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import PODS
from pyroclast.views.readable import age
from pyroclast_cli.compatible.pod_status import pod_cells
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tables import padded
from pyroclast_cli.tree import Group, Leaf

QUEUE_LABEL: Final = "volcano.sh/queue-name"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
HEADER: Final = ("Name", "Ready", "Status", "Restart", "Age")


async def _list(context: Context) -> None:
    job, queue, everywhere = context.text("job"), context.text("queue"), context.is_set("all-namespaces")
    namespace = "" if everywhere else context.text("namespace")
    selector = f"{keys.JOB_NAME} in ({job})" if job else "" if queue else keys.JOB_NAME
    pods, _ = await context.client.list(PODS, namespace, label_selector=selector)
    if job and queue:
        if any(_label(pod, QUEUE_LABEL) not in {"", queue} for pod in pods):
            raise Failure(f"the input vcjob {job} does not match the queue {queue}")
    elif queue:
        pods = [pod for pod in pods if queue in {_label(pod, QUEUE_LABEL), _annotation(pod, QUEUE_ANNOTATION)}]
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


def _label(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name, ""))


def _annotation(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


POD: Final = Group(
    "pod",
    "vcctl command line operation pod",
    (
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
            " list pod",
        ),
    ),
)
