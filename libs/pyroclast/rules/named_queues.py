"""Warnings for native Jobs and PodGroups of Kubernetes whose label or annotation names a queue that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.api.keys import SCHEDULING_QUEUE_NAME
from pyroclast.rules.lookups import QueueLookup
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Verdict


def queue_warnings(record: Mapping[str, Any], queues: QueueLookup) -> Verdict:
    """Return a verdict that allows `record`, with a warning for each queue that `record` or its pod template names and that does
    not exist.
    """
    return Verdict(warnings=tuple(_warnings(record, queues)))


def _warnings(record: Mapping[str, Any], queues: QueueLookup) -> Iterator[str]:
    template = mapping(mapping(record.get("spec")).get("template"))
    for path, holder in (("metadata", record), ("spec.template.metadata", template)):
        metadata = mapping(holder.get("metadata"))
        for part in ("labels", "annotations"):
            name = text(mapping(metadata.get(part)).get(SCHEDULING_QUEUE_NAME))
            if name and queues.get(name) is None:
                place = f"{path}.{part}[{SCHEDULING_QUEUE_NAME}]"
                yield f'{place}: there is no queue "{name}"; the pods wait until there is one'
