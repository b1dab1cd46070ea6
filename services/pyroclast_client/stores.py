"""Reads stores. A store in a PersistentVolumeClaim is read through pods that mount the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyroclast_client.compilation import compiled
from pyroclast_client.documents import fresh_name
from pyroclast_client.errors import ResultTooLarge
from pyroclast_client.options import TaskOptions
from pyroclast_client.payload import Arguments, claim_of, is_elsewhere
from pyroclast_client.runner import sealing
from pyroclast_client.sessions import Connection

SLICE_BYTES: Final = sealing.LOG_BYTES - 1024  # the most that one pod returns by its log
MOST_SLICES: Final = 64
TTL_SECONDS: Final = 300  # of a reader whose client died
NAME: Final = "read-store"
PLACED_BY: Final = ("nodeSelector", "tolerations", "affinity", "imagePullSecrets", "securityContext", "runtimeClassName")


async def fetched(client: Connection, namespace: str, store: str, name: str, like: Mapping[str, Any]) -> bytes | None:
    """Return the content of that name in the store. None when the store does not have it.

    A Job with the image and queue of `like` reads a claim that this machine does not mount.

    Args:
        client: the client to use.
        namespace: the namespace of the claim.
        store: the URL of the store.
        name: the name of the content.
        like: the spec of the Job that wrote the content.

    Raises:
        ResultTooLarge: the content is larger than pods can return.
    """
    if not is_elsewhere(store):
        return await asyncio.to_thread(sealing.got, store, name)
    ((size, first),) = await _slices(client, namespace, store, name, [0], like=like)
    if size < 0:
        return None
    count = -(-size // SLICE_BYTES)
    if count > MOST_SLICES:
        text = f"{store}/{name} is {size:,} bytes, more than the {MOST_SLICES * SLICE_BYTES:,} that are read through pods"
        advice = f"mount the claim where this program runs and set {sealing.CLAIMS}=CLAIM=/folder, or use it in another task"
        raise ResultTooLarge(f"{text}; {advice}")
    rest = await _slices(client, namespace, store, name, range(1, count), like=like) if count > 1 else []
    return b"".join([first, *(part for _, part in rest)])


async def _slices(
    client: Connection, namespace: str, store: str, name: str, numbers: Sequence[int], *, like: Mapping[str, Any]
) -> list[tuple[int, bytes]]:
    """Return the size of a content, -1 when there is none, and one slice of it for each number. Each is read by a pod."""
    path = store.removeprefix(sealing.CLAIM).partition("/")[2].rstrip("/")
    file = f"{path}/{name}".lstrip("/")
    arguments = [Arguments((claim_of(store), file, number * SLICE_BYTES, SLICE_BYTES)) for number in numbers]
    around = replace(client.surroundings, namespace=namespace)
    made = compiled(_reader(), arguments, _options(store, like), around, name=fresh_name(NAME), is_sweep=True)
    job = await client.submit_compiled(made)
    try:
        await job.wait(check=False, fail_if_never=True)
        outcomes = await job.outcomes()
    finally:
        await job.delete()
    for each in outcomes:
        if each.error is not None:
            raise each.error
    return [each.value for each in outcomes]


def _options(store: str, like: Mapping[str, Any]) -> TaskOptions:
    """Return the options of a Job with the image, queue and node selection of the Job that wrote the content."""
    pod = like["tasks"][0]["template"]["spec"]
    container = pod["containers"][0]
    return TaskOptions(
        image=container["image"],
        python=container["command"][0],
        queue=like.get("queue"),
        priority=like.get("priorityClassName"),
        store=store,
        ttl=TTL_SECONDS,
        exclude=("*",),
        pod={"spec": {field: pod[field] for field in PLACED_BY if field in pod}},
    )


def _reader() -> Callable[[str, str, int, int], tuple[int, bytes]]:
    """Return the function that reads in the pod. A nested function is pickled by value, because pods do not have this module."""

    def read(claim: str, file: str, start: int, length: int) -> tuple[int, bytes]:
        import os  # noqa: PLC0415 - in the pod

        mounts = dict(each.split("=", 1) for each in os.environ["PYROCLAST_CLAIMS"].split(","))
        path = os.path.join(mounts[claim], file)
        if not os.path.exists(path):
            return -1, b""
        with open(path, "rb") as opened:
            opened.seek(start)
            return os.path.getsize(path), opened.read(length)

    return read
