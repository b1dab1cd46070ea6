"""`pyroclast run`: submit manifests and follow their Jobs to the end."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, Pod, PodGroup
from pyroclast.api.types import JOBS, POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.client import Client
from pyroclast.kube.config import load_config
from pyroclast.kube.errors import ApiError, ConnectionFailed, NotFound
from pyroclast.kube.informer import Informer

from . import following, manifests
from .errors import CommandError
from .manifests import Catalogue, Manifest

__all__ = ["Display", "submit_and_follow"]

USER_AGENT = "pyroclast-run"
FIELD_MANAGER = "pyroclast-run"
GONE_SECONDS = 60.0
QUIET_SECONDS = 1.0


class Display:
    """Progress lines with the time since the start.

    A terminal shows each change, rewriting the line of a Job while its phase stays. Elsewhere a line is printed for each phase,
    and within a phase at most one in `QUIET_SECONDS`.
    """

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._start = time.monotonic()
        self._open_line: Key | None = None
        self._shown: dict[Key, tuple[float, following.Progress]] = {}

    def say(self, text: str) -> None:
        """A line that stays."""
        self._close_line()
        print(text, file=self._out, flush=True)

    def show(self, job: Key, now: following.Progress) -> bool:
        """Show the progress of `job` where it is news; False when it is held back for the moment."""
        at, before = self._shown.get(job, (-QUIET_SECONDS, None))
        elapsed = time.monotonic() - self._start
        if now == before:
            return True
        same_phase = before is not None and before.phase == now.phase
        if same_phase and not self._is_terminal and elapsed - at < QUIET_SECONDS:
            return False
        self._shown[job] = (elapsed, now)
        line = f"{elapsed:6.1f} s  {job}  {now}"
        if not self._is_terminal:
            print(line, file=self._out, flush=True)
            return True
        if not same_phase or self._open_line != job:
            self._close_line()
        print(f"\r\033[K{line}", end="", file=self._out, flush=True)
        self._open_line = job
        return True

    def _close_line(self) -> None:
        if self._open_line is not None:
            print(file=self._out, flush=True)
            self._open_line = None


@dataclass(slots=True)
class _Submitted:
    jobs: dict[Key, str] = field(default_factory=dict)  # uid by key
    objects: list[tuple[ResourceType, Key]] = field(default_factory=list)


async def submit_and_follow(kubeconfig: Path, objects: Sequence[Manifest], display: Display) -> bool:
    """Create all `objects` (or none, where one is refused), show the progress of the Jobs among them; True when all completed.

    Raises:
        CommandError: an object was refused, or the API server went away for good.
    """
    async with Client(load_config(str(kubeconfig)), user_agent=USER_AGENT) as client:
        submitted = await _submit(client, objects, display)
        if not submitted.jobs:
            return True
        return await _follow(client, submitted.jobs, display)


async def _submit(client: Client, objects: Sequence[Manifest], display: Display) -> _Submitted:
    catalogue = Catalogue(client)
    typed = [(await catalogue.type_of(manifest), manifest) for manifest in objects]
    done = _Submitted()
    for kind, manifest in typed:
        key = manifests.key_of(manifest, kind)
        try:
            if kind == JOBS and key.name:
                await _clear_finished(client, key, display)
            created = await client.create(kind, manifest, namespace=key.namespace, field_manager=FIELD_MANAGER)
        except (ApiError, ConnectionFailed) as error:
            await _take_back(client, done)
            raise CommandError(f"{kind.qualified} {key}: {error.message}{_causes(error)}{_nothing_left(done)}") from error
        except CommandError as error:
            await _take_back(client, done)
            raise CommandError(f"{error}{_nothing_left(done)}") from error
        key = Key(created["metadata"].get("namespace", ""), created["metadata"]["name"])
        display.say(f"{kind.qualified}/{key.name} created")
        done.objects.append((kind, key))
        if kind == JOBS:
            done.jobs[key] = created["metadata"]["uid"]
    return done


async def _clear_finished(client: Client, key: Key, display: Display) -> None:
    """Make way for a Job of a name that an earlier, finished run left behind; one that still runs is not touched."""
    try:
        found = await client.get(JOBS, key)
    except NotFound:
        return
    phase = found.get("status", {}).get("state", {}).get("phase", JobPhase.PENDING)
    if phase not in following.FINISHED:
        raise CommandError(f"job {key} exists and is {phase}: wait for its end, delete it, or choose another metadata.name")
    display.say(f"job {key} is {phase} from an earlier run: replacing it")
    await client.delete(JOBS, key, uid=found["metadata"]["uid"], propagation="Foreground")
    try:
        async with asyncio.timeout(GONE_SECONDS):
            with contextlib.suppress(NotFound):
                while True:
                    await client.get(JOBS, key)
                    await asyncio.sleep(0.05)
    except TimeoutError:
        waited = f"still there {GONE_SECONDS:.0f} s after its deletion"
        raise CommandError(f"job {key} from an earlier run is {waited}: its metadata.finalizers tell what holds it") from None


async def _take_back(client: Client, done: _Submitted) -> None:
    for kind, key in reversed(done.objects):
        with contextlib.suppress(ApiError):
            await client.delete(kind, key)


def _causes(error: ApiError | ConnectionFailed) -> str:
    causes = error.details.get("causes", []) if isinstance(error, ApiError) else []
    lines = [f"\n  * {cause.get('field')}: {cause.get('message')}" for cause in causes if cause.get("field")]
    return "".join(dict.fromkeys(lines))


def _nothing_left(done: _Submitted) -> str:
    return f" (what was created before it was deleted again: {len(done.objects)})" if done.objects else ""


async def _follow(client: Client, jobs: dict[Key, str], display: Display) -> bool:
    changed = asyncio.Event()
    namespaces = {key.namespace for key in jobs}
    views = [_View(client, namespace, changed) for namespace in sorted(namespaces)]
    current: dict[Key, following.Progress] = {}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()) for view in views for informer in view.informers]
        for view in views:
            await view.synced()
        while True:
            changed.clear()
            current.update(found for view in views for found in view.progress(jobs))
            held_back = sum(not display.show(key, now) for key, now in current.items())
            if all(now.is_finished for now in current.values()):
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), QUIET_SECONDS if held_back else None)
        for task in tasks:
            task.cancel()
    display.say("")
    return all(now.phase == JobPhase.COMPLETED for now in current.values())


class _View:
    """Jobs, PodGroups and pods of one namespace, as watched."""

    def __init__(self, client: Client, namespace: str, changed: asyncio.Event) -> None:
        self._namespace = namespace
        self._jobs = Informer(client, JOBS, Job, namespace=namespace)
        self._groups = Informer(client, POD_GROUPS, PodGroup, namespace=namespace)
        self._pods = Informer(client, PODS, Pod, namespace=namespace, indexers={"job": _job_of})
        self.informers: tuple[Informer[Job] | Informer[PodGroup] | Informer[Pod], ...] = (self._jobs, self._groups, self._pods)
        for informer in self.informers:
            informer.on_change(lambda _old, _new: changed.set())

    async def synced(self) -> None:
        for informer in self.informers:
            await informer.synced()

    def progress(self, jobs: dict[Key, str]) -> list[tuple[Key, following.Progress]]:
        found = []
        for key, uid in jobs.items():
            if key.namespace != self._namespace:
                continue
            job = self._jobs.get(key)
            if job is None or job.metadata.uid != uid:
                raise CommandError(f"job {key} was deleted while it was followed")
            group = self._groups.get(Key(key.namespace, f"{key.name}-{uid}"))
            found.append((key, following.progress(job, group, self._pods.by_index("job", key.name))))
        return found


def _job_of(pod: Pod) -> list[str]:
    name = pod.metadata.annotations.get(keys.JOB_NAME)
    return [name] if name else []
