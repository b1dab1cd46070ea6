"""The pod log: one line when a pod starts on a node and one line when the pod has ended. Accounting can be compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import orjson

from pyroclast.api.types import Key
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records


class PodLog:
    """Appends to an open file. Without a file it does nothing.

    After a restart, the nodes write a line again for each running pod. Readers must use one line for each UID and event.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def started(self, pod: records.Pod, node: str, at: float) -> None:
        """Record the start of a pod. `bound` in the line is the time of binding by the clock of the API server."""
        scheduled = (c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True")
        bound = next(scheduled, "") or pod.metadata.creation_timestamp
        self._write("started", at, pod.key, pod.metadata.uid, node, bound=bound)

    def ended(self, key: Key, uid: str, node: str, at: float) -> None:
        """Record the end of a pod's last container."""
        self._write("ended", at, key, uid, node)

    def _write(self, event: str, at: float, key: Key, uid: str, node: str, **more: str | None) -> None:
        if self._file is None:
            return
        line = {"time": times.micro_rfc3339(at), "event": event, "pod": str(key), "uid": uid, "node": node, **more}
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def pod_log(path: str) -> Iterator[PodLog]:
    """Open the pod log. With an empty path nothing is written."""
    if not path:
        yield PodLog(None)
        return
    with Path(path).open("ab", buffering=0) as file:  # each line is in the file at once, also when the nodes are killed
        yield PodLog(file)
