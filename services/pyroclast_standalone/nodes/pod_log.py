"""The pod log: a line when a node takes a pod and a line when the pod has ended, to check accounting against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import orjson

from pyroclast.api.types import Key
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records

__all__ = ["PodLog", "pod_log"]


class PodLog:
    """Appends to an open file, or does nothing where there is none.

    After a restart the nodes write a line again for the pods that they find: readers take one line per uid and event.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def started(self, pod: records.Pod, node: str, at: float) -> None:
        """A node has taken a pod. `bound` is when the pod itself says that it was bound, by the clock of the API server."""
        scheduled = (c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True")
        bound = next(scheduled, "") or pod.metadata.creation_timestamp
        self._write("started", at, pod.key, pod.metadata.uid, node, bound=bound)

    def ended(self, key: Key, uid: str, node: str, at: float) -> None:
        """The last container of a pod has ended."""
        self._write("ended", at, key, uid, node)

    def _write(self, event: str, at: float, key: Key, uid: str, node: str, **more: str | None) -> None:
        if self._file is None:
            return
        line = {"time": times.micro_rfc3339(at), "event": event, "pod": str(key), "uid": uid, "node": node, **more}
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def pod_log(path: str) -> Iterator[PodLog]:
    """The log in a file; "": none is written."""
    if not path:
        yield PodLog(None)
        return
    with Path(path).open("ab", buffering=0) as file:  # each line is there at once, also when the nodes are killed
        yield PodLog(file)
