"""Finds out which changes would let a Job start: reads the Job, and tries changes in a thread of its own between sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from pyroclast.api import records
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.client import Client
from pyroclast.kube.errors import KubeError
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.changes import Priorities, Situation
from pyroclast_scheduler.explaining.gangs import TooManyPods, gang_of
from pyroclast_scheduler.explaining.proofs import Prover, proved
from pyroclast_scheduler.explaining.trials import Engine
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.session import Action, PluginFactory
from pyroclast_scheduler.shell.explainer import Explainer
from pyroclast_scheduler.shell.loop import Loop

__all__ = ["ChangeTrials", "priorities_of"]

_PATIENCE_SECONDS: Final = 1.0  # for which a trial waits for a session to end


class ChangeTrials:
    """Takes the key of a PodGroup, and gives the fields `change` and `changeReason` of the answer; one at a time."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        loop: Loop,
        explainer: Explainer,
        configuration: Callable[[], Configuration],
        *,
        actions: Mapping[str, Action],
        plugins: Mapping[str, PluginFactory],
    ) -> None:
        self._client, self._cache, self._loop, self._explainer = client, cache, loop, explainer
        self._configuration, self._actions, self._plugins = configuration, actions, plugins
        self._features = NodeFeatures()
        self._thread = ThreadPoolExecutor(1, "explain")

    async def __call__(self, key: str) -> dict[str, Any]:
        """What helps the Job of a PodGroup."""
        facts = self._cache.facts().get(key)
        owner = None if facts is None else facts.group.metadata.controller
        if facts is None or owner is None or owner.kind != JOBS.kind:
            return _none("only what a Job asks for can be changed")
        try:
            body = await self._client.get(JOBS, Key(facts.namespace, owner.name))
        except KubeError as error:
            return _none(f"the Job cannot be read: {error}")
        entry = self._explainer.book.get(key)
        if entry is None:
            return _none("it waits no more")
        priorities = priorities_of(self._cache.priorities)
        try:
            gang = gang_of(body, priorities.values, priorities.default, phase=facts.phase)
        except TooManyPods as error:
            return _none(f"no change is tried: {error}")
        ports = self._loop.circumstances()
        book = self._explainer.book
        case = Situation(
            body,
            gang,
            entry.code,
            entry.short,
            self._cache.view(),
            priorities,
            (ports.reservations or {}).get(entry.record.holder),
            ports.now,
            place=book.ahead(entry) + 1,
            is_never=entry.is_never,
        )
        engine = Engine(self._configuration(), self._actions, self._plugins, ports, self._features)
        position = partial(book.place_of, key)
        prover = Prover(case, key, engine, position, time.perf_counter, pause=self._between_sessions)
        return await asyncio.get_running_loop().run_in_executor(self._thread, proved, prover)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _between_sessions(self) -> None:
        self._loop.quiet.wait(_PATIENCE_SECONDS)


def priorities_of(classes: Mapping[str, records.PriorityClass]) -> Priorities:
    """PriorityClasses as trials want them."""
    default = next((each.value for each in classes.values() if each.global_default), 0)
    return Priorities({name: each.value for name, each in classes.items()}, default)


def _none(why: str) -> dict[str, Any]:
    return {"change": [], "changeReason": why}
