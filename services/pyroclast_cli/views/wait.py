"""The command `vcctl wait`: waits until a Job has reached a phase or can no longer reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.api.enums import JobPhase
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.resources import durations
from pyroclast.runtime.sending import NotSent, read_targets, send, service_of
from pyroclast.views.jobs import phase_of
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.scope import NAMESPACE, job_key

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


TIMED_OUT: Final = 124
ENDS: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
PAUSE: Final = 1.0  # seconds before a broken watch is restarted
SILENCE: Final = 60.0
NANOSECONDS: Final = 10**9


def is_out_of_reach(phase: str, wanted: str) -> bool:
    """Return whether a Job in `phase` can no longer reach the phase `wanted`. Completed, Failed and Terminated are final."""
    return phase in ENDS and phase != wanted


NOTIFY_FILE: Final = "PYROCLAST_NOTIFY_FILE"
DEFAULT_FILE: Final = "~/.config/pyroclast/notify"


def _targets() -> list[str]:
    """Return the URLs in the user's own file. Raises Failure: nothing can be sent, which is said before the wait."""
    path = Path(os.environ.get(NOTIFY_FILE) or DEFAULT_FILE).expanduser()
    how = f"write one URL in a line, such as mailto://USER:PASSWORD@HOST; {NOTIFY_FILE} names another file"
    try:
        if path.stat().st_mode & 0o077:
            raise Failure(f"--notify: others may read {path}, which has secrets: chmod 600 {path}")
        targets = read_targets(path.read_text(encoding="utf-8"))
        service_of(targets)
    except OSError as error:
        raise Failure(f"--notify: {path}: {error.strerror}; {how}") from error
    except NotSent as error:
        raise Failure(f"--notify: {path}: {error}") from error
    return targets


async def _wait(context: Context) -> int:
    if not context.is_set("notify"):
        return await _waited(context)
    targets, key = _targets(), job_key(context)
    try:
        status, text = await _waited(context), f"Job {key} is {_phase(context.text('for'))}"
    except Failure as failure:
        status, text = failure.status, str(failure)
        sys.stderr.write(f"vcctl wait: {text}\n")
    try:
        await send(targets, text, f"vcctl why -n {key.namespace} {key.name}")
    except NotSent as error:
        raise Failure(f"--notify: the message was not sent: {error}", status=status or 1) from error
    return status


async def _waited(context: Context) -> int:
    key, wanted = job_key(context), _phase(context.text("for"))
    try:
        seconds = durations.nanoseconds(context.text("timeout")) / NANOSECONDS if context.text("timeout") else None
    except durations.DurationError as error:
        raise Failure(f'--timeout: {error}; write a duration such as "10m"') from error
    reached = ""
    try:
        async with asyncio.timeout(seconds):
            reached = await _followed(context.client, key, wanted)
    except TimeoutError:
        raise Failure(f"Job {key} is not {wanted} after {context.text('timeout')}", status=TIMED_OUT) from None
    if reached != wanted:
        raise Failure(f"Job {key} is {reached} and will not be {wanted}")
    context.say(f"Job {key} is {wanted}")
    return 0


def _phase(text: str) -> str:
    known = {str(phase).lower(): str(phase) for phase in JobPhase if phase}
    wanted = text.removeprefix("phase=").lower()
    if wanted not in known:
        raise Failure(f'--for: there is no phase "{text}"; there are {", ".join(known.values())}')
    return known[wanted]


async def _followed(client: Client, key: Key, wanted: str) -> str:
    """Wait for the final phase: `wanted`, or a phase from which `wanted` cannot be reached. Return that phase."""
    while True:
        try:
            job = await client.get(JOBS, key)
        except NotFound:
            raise Failure(f"Job {key} does not exist, or was deleted") from None
        phase = phase_of(job)
        if phase == wanted or is_out_of_reach(phase, wanted):
            return phase
        try:
            await _changed(client, key, job, phase)
        except KubeError:  # the watch broke: the Job is read again, and that read reports the error if it fails too
            await asyncio.sleep(PAUSE)


async def _changed(client: Client, key: Key, job: Mapping[str, Any], phase: str) -> None:
    """Return when the Job has another phase, was deleted, or the watch has ended."""
    query = {"fieldSelector": f"metadata.name={key.name}", "resourceVersion": job["metadata"]["resourceVersion"]}
    async with contextlib.aclosing(client.watch(JOBS, key.namespace, query, silence=SILENCE)) as batches:
        async for lines in batches:
            for line in lines:
                event = orjson.loads(line)
                if event["type"] in {"DELETED", "ERROR"} or phase_of(event["object"]) != phase:
                    return


WAIT: Final = OwnLeaf(
    "wait",
    "wait until a Job has a phase",
    _wait,
    (
        NAMESPACE,
        Flag("for", "", "Completed", "the phase to wait for"),
        Flag("notify", "", default=False, text=f"send a message at the end, to the URLs in {DEFAULT_FILE}", kind="bool"),
        Flag("timeout", "", "", "how long to wait at most, such as 10m; empty for ever", "duration"),
    ),
    takes="NAME",
    statuses=((0, "the Job has the phase"), (1, "the phase can no longer be reached"), (TIMED_OUT, "the timeout is over")),
)
