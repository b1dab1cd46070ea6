"""Finds the changes that would let a Job start: reads the Job and runs trials in a separate thread between sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.times import format_time
from pyroclast.resources.pods import NO_ADDITIONS, Additions
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.book import PastCode, WaitingBook, WaitingEntry
from pyroclast_scheduler.explaining.changes import Priorities, Situation, with_pods
from pyroclast_scheduler.explaining.proofs import Prover, proved
from pyroclast_scheduler.explaining.trials import Engine, TooManyPods, Verdict, as_created, gang_of, tried
from pyroclast_scheduler.explaining.what_if import Compared, WhatIf, changed_snapshot, read_what_if
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.session import Action, PluginFactory
from pyroclast_scheduler.shell.session_inputs import SessionGaps, SessionInputs

T = TypeVar("T")


Compare = Callable[[WaitingBook, WhatIf, Mapping[str, Floats], str], Awaitable[list[Compared]]]
"""Compares the starts of waiting jobs without and with a change, see `Estimates.compared`."""


class ChangeTrials:
    """Receives the key of a PodGroup and returns the fields `change` and `changeReason` of the answer, one at a time."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        book: WaitingBook,
        inputs: SessionInputs,
        *,
        gaps: SessionGaps,
        configuration: Callable[[], Configuration],
        actions: Mapping[str, Action],
        plugins: Mapping[str, PluginFactory],
        additions: Callable[[str], Additions] = lambda _: NO_ADDITIONS,
    ) -> None:
        self._client, self._cache, self._book, self._inputs, self._gaps = client, cache, book, inputs, gaps
        self._configuration, self._actions, self._plugins = configuration, actions, plugins
        self._features, self._additions = NodeFeatures(), additions
        self._thread = ThreadPoolExecutor(1, "explain")

    async def __call__(self, key: str) -> dict[str, Any]:
        """Return the changes that help the Job of a PodGroup."""
        facts = self._cache.jobs.all_facts().get(key)
        owner = None if facts is None else facts.group.metadata.controller
        if facts is None or owner is None or owner.kind != JOBS.kind:
            return _none("only what a Job asks for can be changed")
        try:
            body = await self._client.get(JOBS, Key(facts.namespace, owner.name))
        except KubeError as error:
            return _none(f"the Job cannot be read: {error}")
        entry = self._book.get(key)
        if entry is None:
            return _none("it waits no more")
        priorities, additions = priorities_of(self._cache.priorities), self._additions(facts.namespace)
        try:
            gang = gang_of(body, priorities.values, priorities.default, additions=additions, phase=facts.phase)
        except TooManyPods as error:
            return _none(f"no change is tried: {error}")
        ports = self._inputs.for_onlookers()
        case = Situation(
            body,
            gang,
            entry.code,
            entry.short,
            self._cache.view(),
            priorities,
            (ports.reservations or {}).get(entry.record.holder),
            ports.now,
            place=self._book.ahead(entry) + 1,
            is_never=entry.is_never,
            additions=additions,
        )
        return await self._proved(case, key, self._engine())

    async def fits(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], WaitingEntry | None]:
        """Return the result for a Job that does not exist: fields of the answer, and its waiting entry, None if it would start.

        A Job that is invalid, or too large for a trial, raises ValueError.
        """
        now = self._inputs.for_onlookers().now
        priorities = priorities_of(self._cache.priorities)
        whole = as_created(body, now)
        additions = self._additions(whole["metadata"]["namespace"])
        gang = gang_of(whole, priorities.values, priorities.default, additions=additions)
        engine = self._engine()
        view = self._cache.view()
        if gang.queue not in view.queues:
            raise ValueError(pending.missing_queue(gang.queue))
        verdict = await self._in_thread(partial(self._tried, view, gang, engine))
        meta = whole["metadata"]
        fields = {"metadata": {"namespace": meta["namespace"], "name": meta["name"]}, "queue": gang.queue}
        if verdict.record is None:
            sentence = "it would start at once" if verdict.starts else "it would be let in; nobody says why it would wait"
            price = f", and {verdict.evictions} pods would be evicted for it" if verdict.evictions else ""
            answer = {"code": None, "never": False, "sentence": sentence + price, "phase": "", "evictions": verdict.evictions}
            return fields | answer | {"asOf": format_time(now), "complete": True, "seesWholeCluster": True}, None
        entry = WaitingEntry(gang.key, verdict.record, now)
        entry.past.append(PastCode(entry.code, now))
        place = self._book.ahead(entry) + 1
        case = Situation(
            whole,
            gang,
            entry.code,
            entry.short,
            view,
            priorities,
            None,
            now,
            place=place,
            is_never=entry.is_never,
            additions=additions,
        )
        return fields | await self._proved(case, gang.key, engine), entry

    async def what_if(self, body: Mapping[str, Any], compare: Compare) -> tuple[list[Compared], dict[str, Any]]:
        """Return the starts of waiting jobs without and with a change, and the trial of the Job that it names, if it names one.

        ValueError: the change is invalid, or its Job does not wait.
        """
        view = self._cache.view()
        what = read_what_if(body, view)
        asked: dict[str, Floats] = {}
        trial: dict[str, Any] = {}
        waits = ""
        if what.name:
            facts = next((each for each in view.all_jobs.values() if _is_of(each, what.namespace, what.name)), None)
            entry = None if facts is None else self._book.get(facts.key)
            if facts is None or entry is None:
                raise ValueError(f"Job {what.namespace}/{what.name} does not wait for the scheduler")
            job: Mapping[str, Any] = await self._client.get(JOBS, Key(what.namespace, what.name))
            job = with_pods(job, what.pods) if what.pods else job
            priorities, additions = priorities_of(self._cache.priorities), self._additions(facts.namespace)
            gang = gang_of(job, priorities.values, priorities.default, additions=additions, phase=facts.phase)
            if (minimum := gang.minimum(view.dimensions)) is not None:
                asked[facts.key] = minimum
            changed = changed_snapshot(view, what)
            verdict = await self._in_thread(partial(self._tried, changed, gang, self._engine(), instead=facts.key))
            record, waits = verdict.record, "" if verdict.starts else facts.key
            trial = {
                "starts": verdict.starts,
                "evictions": verdict.evictions,
                "code": None if record is None else str(record.code),
                "sentence": "" if record is None else record.sentence,
            }
        return await compare(self._book.copy(), what, asked, waits), trial

    async def _proved(self, case: Situation, key: str, engine: Engine) -> dict[str, Any]:
        position = partial(self._book.place_of, key)
        prover = Prover(case, key, engine, position, time.perf_counter, pause=self._gaps.wait)
        return await self._in_thread(partial(proved, prover))

    def _tried(self, view: Snapshot, gang: JobFacts, engine: Engine, *, instead: str = "") -> Verdict:
        self._gaps.wait()
        return tried(view, gang, engine, instead=instead)

    def _engine(self) -> Engine:
        return Engine(self._configuration(), self._actions, self._plugins, self._inputs.for_onlookers(), self._features)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """End the thread on which changes are tried."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _is_of(facts: JobFacts, namespace: str, name: str) -> bool:
    owner = facts.group.metadata.controller if facts.namespace == namespace else None
    return owner is not None and owner.kind == JOBS.kind and owner.name == name


def priorities_of(classes: Mapping[str, records.PriorityClass]) -> Priorities:
    """Return PriorityClasses in the form that trials use."""
    default = next((each.value for each in classes.values() if each.global_default), 0)
    return Priorities({name: each.value for name, each in classes.items()}, default)


def _none(why: str) -> dict[str, Any]:
    return {"change": [], "changeReason": why}
