"""Follows the output of all pods of a Job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import keys
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.errors import ConnectionFailed, KubeError, NotFound
from pyroclast.kube.http.client import Client, selectors
from pyroclast_client.loops import end as end_tasks
from pyroclast_client.podreading import LogLine, Pod, pod_of, pods_of, without_frame
from pyroclast_client.watching import SelectionWatch

PAUSE: Final = 0.5


@dataclass
class _Readers:
    """Reads the log of each chosen pod once the pod has started."""

    client: Client
    namespace: str
    is_chosen: Callable[[Pod], bool]
    timestamps: bool
    told: asyncio.Queue[LogLine | KubeError | None] = field(default_factory=asyncio.Queue)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def see(self, pod: Pod | None) -> None:
        """Start to read the log of a pod, unless it is read already."""
        if pod is not None and pod.has_started and pod.uid not in self.tasks and self.is_chosen(pod):
            self.tasks[pod.uid] = asyncio.get_running_loop().create_task(self._read(pod))

    async def _read(self, pod: Pod) -> None:
        """Pass the lines on. After a broken connection, the log is read again and the lines that were passed on are skipped."""
        query = {"container": pod.containers[0], "follow": "true", **({"timestamps": "true"} if self.timestamps else {})}
        passed = 0
        while True:
            number = 0
            try:
                async with aclosing(self.client.stream(PODS.path(self.namespace, pod.name, "log"), query)) as stream:
                    async for raw in stream:
                        number += 1
                        line = without_frame(raw.decode(errors="replace"))
                        if number > passed and line is not None:
                            self.told.put_nowait(LogLine(pod.task, pod.index, line))
            except ConnectionFailed:
                passed = max(passed, number)
                await asyncio.sleep(PAUSE)
            except NotFound:
                return  # the pod was deleted: its restart is another pod
            except KubeError as error:
                self.told.put_nowait(error)
                return
            else:
                return


async def followed(
    client: Client, key: Key, uid: str, *, end: Awaitable[None], is_chosen: Callable[[Pod], bool], timestamps: bool
) -> AsyncGenerator[LogLine]:
    """Yield the lines of the chosen pods when they arrive, until `end` has happened and all logs are read.

    Pods that are created later are included.
    """
    readers = _Readers(client, key.namespace, is_chosen, timestamps)
    selection = selectors(f"{keys.JOB_NAME}={key.name}", "")
    watch = SelectionWatch(client, PODS, key.namespace, selection)
    tasks = [
        asyncio.ensure_future(_told(readers, watch.run(lambda item: readers.see(pod_of(item, uid))))),
        asyncio.ensure_future(_finish(readers, key, uid, end)),
    ]
    try:
        while (found := await readers.told.get()) is not None:
            if isinstance(found, KubeError):
                raise found
            yield found
    finally:
        await end_tasks((*tasks, *readers.tasks.values()))


async def _finish(readers: _Readers, key: Key, uid: str, end: Awaitable[None]) -> None:
    """After the end, also read the pods that the watch has not delivered yet. Then put None behind the last line."""
    await end
    for pod in await pods_of(readers.client, key.namespace, key.name, uid):
        readers.see(pod)
    await asyncio.gather(*readers.tasks.values())
    readers.told.put_nowait(None)


async def _told(readers: _Readers, work: Awaitable[None]) -> None:
    try:
        await work
    except KubeError as error:
        readers.told.put_nowait(error)
