"""The handle of a flow: follows the flow, reads its results and Jobs, and controls it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar, cast

from pyroclast.api.keys import CREATED_BY_JOB_FLOW, FORCE_DELETE
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_client import errors
from pyroclast_client.collecting import Collector
from pyroclast_client.documents import PAYLOAD, RETURNS, STORE, SUBMISSION, Document, gives_json
from pyroclast_client.errors import Usage
from pyroclast_client.handles import AsyncJob
from pyroclast_client.jobs import Job
from pyroclast_client.loops import Synchronous, awaited, run
from pyroclast_client.payload import is_elsewhere
from pyroclast_client.results import stored_value
from pyroclast_client.runner import sealing
from pyroclast_client.sessions import Handle
from pyroclast_client.states import flow_html, status_of
from pyroclast_client.stores import fetched
from pyroclast_client.submission import create, key_of
from pyroclast_client.translation import translating

_NAME = re.compile(r"(?P<stem>.*?)(-r(?P<number>\d+))?-(?P<suffix>[^-]+)")


def remaining_flow(flow: Mapping[str, Any], phases: Mapping[str, str]) -> Document:
    """Return a JobFlow with the entries that have not completed. The failed flow owns the new one.

    `phases` maps names of entries to their phases.

    Raises:
        Usage: all entries have completed, or a choice depends on the outcome of a completed entry.
    """
    metadata, entries = flow["metadata"], flow["spec"].get("flows") or ()
    completed = {entry["name"] for entry in entries if phases.get(entry["name"]) == "Completed"}
    # a switch on an entry that runs again must choose again
    again = {entry["name"] for entry in entries if "switch" in entry and entry["switch"]["on"] not in completed}
    done = completed - again
    gone = done | _left_out(entries, phases, done)
    left = [_without(entry, done, gone) for entry in entries if entry["name"] not in gone]
    if not left:
        raise Usage(f"retry: all entries of JobFlow {metadata['name']} have completed, so nothing is left to do")
    owner = {"apiVersion": JOB_FLOWS.api_version, "kind": JOB_FLOWS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    parts = _NAME.fullmatch(metadata["name"])
    if parts is None:
        raise Usage(f"retry: JobFlow {metadata['name']} was not made by this client; submit a flow of the entries that are left")
    name = f"{parts['stem']}-r{int(parts['number'] or 0) + 1}-{parts['suffix']}"
    return {
        "apiVersion": JOB_FLOWS.api_version,
        "kind": JOB_FLOWS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "annotations": {
                key: value for key, value in (metadata.get("annotations") or {}).items() if key.startswith("client.")
            },
            "ownerReferences": [owner],
        },
        "spec": {**flow["spec"], "flows": left},
    }


def _left_out(entries: Sequence[Mapping[str, Any]], phases: Mapping[str, str], done: AbstractSet[str]) -> set[str]:
    """Return the entries that completed choices have skipped, and the entries that depend only on those."""
    listed: set[str] = set()
    for entry in entries:
        if entry["name"] in done or (entry.get("if") or {}).get("target") in done:
            listed.update(entry.get("else") or ())
        if entry["name"] in done and (switch := entry.get("switch")):
            listed.update(switch.get("default") or (), *(case.get("entries") or () for case in switch.get("cases") or ()))
    skipped = {entry["name"]: entry for entry in entries if phases.get(entry["name"]) == "Skipped"}
    unmade = listed & skipped.keys()
    while more := {
        name for name, entry in skipped.items() if name not in unmade and (waits := _waits(entry)) and waits <= unmade
    }:
        unmade |= more
    return unmade


def _waits(entry: Mapping[str, Any]) -> set[str]:
    asked = (entry.get("if") or {}).get("target"), (entry.get("switch") or {}).get("on")
    return {*((entry.get("dependsOn") or {}).get("targets") or ()), *filter(None, asked)}


def _without(entry: Mapping[str, Any], done: AbstractSet[str], gone: AbstractSet[str]) -> Document:
    """Return the entry without dependencies on completed entries, and without choices of the removed entries."""
    kept = dict(entry)
    depends = dict(kept.get("dependsOn") or {})
    targets = [target for target in depends.get("targets") or () if target not in gone]
    is_met = depends.get("strategy") == "any" and len(targets) < len(depends.get("targets") or ())
    kept.pop("dependsOn", None)
    if targets and not is_met:
        kept["dependsOn"] = {**depends, "targets": targets}
    condition = kept.get("if") or {}
    if condition.get("target") in done:
        if "Completed" not in (condition.get("phase") or ["Completed"]):
            raise Usage(
                f"retry: entry {entry['name']} runs only if {condition['target']} fails, which has completed; run the flow anew"
            )
        kept.pop("if")
        kept.pop("else", None)  # the entries of `else` stay skipped
    elif any(f'targets["{name}"]' in condition.get("expression", "") for name in done):
        raise Usage(f"retry: the condition of entry {entry['name']} asks for entries that have completed; run the flow anew")
    if kept.get("else"):
        kept["else"] = [name for name in kept["else"] if name not in gone]
    if switch := kept.get("switch"):
        if switch["on"] in done:
            raise Usage(f"retry: {entry['name']} has not chosen by {switch['on']}, which has completed; run the flow anew")
        cases = [{**case, "entries": [name for name in case["entries"] if name not in gone]} for case in switch["cases"]]
        default = [name for name in switch.get("default") or () if name not in gone]
        kept["switch"] = {**switch, "cases": cases, "default": default}
    return kept


R = TypeVar("R")

ENDED: Final = frozenset({"Succeed", "Failed"})


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """The status of a flow.

    Attributes:
        phase: the phase of the flow.
        entries: the phase of each entry, by its name in the flow function.
        messages: the reason of each entry's phase, by the same name.
        plain: the names that are names of entries, and not of rounds of a loop.
    """

    phase: str
    entries: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    plain: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def is_finished(self) -> bool:
        """Whether the flow has ended."""
        return self.phase in ENDED


class AsyncFlow(Handle, Generic[R]):
    """The handle of a JobFlow in the cluster. The handle can be pickled and used in another process."""

    async def object(self) -> dict[str, Any]:
        """Return the JobFlow as the API server stores it."""
        with translating(f"JobFlow {self.key}"):
            return self._same(await (await self.client.session()).kube.get(JOB_FLOWS, self.key))

    async def status(self) -> FlowStatus:
        """Return the phases of the flow and of its entries."""
        return _status(await self.object())

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> Self:  # noqa: ASYNC109 - as of a Job
        """Wait until the flow ends.

        Raises:
            JobFailed: the flow failed. The message names the failed entries.
            TimedOut: `timeout` is over.
        """
        session = await self.client.session()
        watcher = session.watcher(JOB_FLOWS, self.namespace)

        def holds(flow: dict[str, Any] | None) -> bool:
            return flow is None or flow["metadata"]["uid"] != self.uid or _status(flow).is_finished

        try:
            with translating(f"JobFlow {self.key}"):
                async with asyncio.timeout(timeout):
                    flow = await watcher.until(self.name, holds)
        except TimeoutError:
            what = f"JobFlow {self.key} had not ended within {timeout:g} s"
            raise errors.TimedOut(f"{what}; it goes on. `status` has its entries, `cancel()` ends it") from None
        if flow is None:
            raise errors.JobFailed(f"JobFlow {self.key} was deleted while it was waited for. Run it again", phase="Deleted")
        status = _status(self._same(flow))
        if check and status.phase != "Succeed":
            bad = [name for name, phase in status.entries.items() if phase in {"Failed", "Terminated", "Aborted"}]
            named = f"; {', '.join(bad)} failed, `flow[{bad[0]!r}].logs()` shows what it printed" if bad else ""
            text = f"JobFlow {self.key} ended as {status.phase}{named}. `retry()` runs what has not completed"
            raise errors.JobFailed(text, job=str(self.key), phase=status.phase)
        return self

    async def job(self, entry: str, number: int | None = None) -> AsyncJob[Any]:
        """Return the Job of an entry, by the entry's name in the flow function. `number` selects a round of a loop.

        Raises:
            Usage: the flow has no entry of that name.
            NotFound: the Job was not created yet.
        """
        flow = await self.object()
        name = _entry_names(flow).get(entry)
        if name is None:
            raise errors.Usage(f"JobFlow {self.key} has no entry {entry}; it has {', '.join(sorted(_entry_names(flow)))}")
        key = Key(self.namespace, f"{self.name}-{name}" + ("" if number is None else f"-{number}"))
        with translating(f"Job {key} of entry {entry}"):
            session = await self.client.session()
            job = await session.kube.get(JOBS, key)
        collector = await self._collector(flow)
        return AsyncJob(self.client, key.namespace, key.name, job["metadata"]["uid"], collector=collector)

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - as of a Job
        """Wait until the flow ends. Return the value of the node that the flow function returned."""
        await self.wait(timeout)
        flow = await self.object()
        returned = (flow["metadata"].get("annotations") or {}).get(RETURNS, "")
        if not returned:
            raise errors.Usage(f"JobFlow {self.key} returns nothing; `flow[ENTRY].result()` is the value of an entry")
        entry, _, rounds = returned.partition("*")
        if not rounds:
            return cast("R", await self._value(flow, entry, None))
        return cast("R", [await self._value(flow, entry, number) for number in range(int(rounds))])

    async def retry(self) -> AsyncFlow[R]:
        """Wait until the flow ends. Then run the entries that have not completed, in a new flow.

        The new flow uses the values of the completed entries.

        Raises:
            Usage: all entries have completed, or a choice depends on the outcome of a completed entry.
        """
        await self.wait(check=False)
        flow = await self.object()
        names = _entry_names(flow)
        phases = {names[bare]: phase for bare, phase in _whole(_status(flow)).items() if bare in names}
        body = remaining_flow(flow, phases)
        with translating(f"JobFlow {body['metadata']['name']}"):
            created = await create((await self.client.session()).kube, JOB_FLOWS, body)
        metadata = created["metadata"]
        return AsyncFlow(self.client, metadata["namespace"], metadata["name"], metadata["uid"])

    async def cancel(self) -> None:
        """Terminate the running Jobs. The flow then fails, and starts no entry that depends on these Jobs."""
        await self.object()
        session = await self.client.session()
        with translating(f"the Jobs of JobFlow {self.key}"):
            items, _ = await session.kube.list(
                JOBS, self.namespace, label_selector=f"{CREATED_BY_JOB_FLOW}={self.namespace}.{self.name}"
            )
        for item in items:
            is_owned = any(owner["uid"] == self.uid for owner in item["metadata"].get("ownerReferences") or ())
            if is_owned and not status_of(item).is_finished:
                job: AsyncJob[Any] = AsyncJob(self.client, self.namespace, item["metadata"]["name"], item["metadata"]["uid"])
                await job.cancel()

    async def delete(self) -> None:
        """Delete the flow with its templates and Jobs."""
        body = {"metadata": {"annotations": {FORCE_DELETE: "true"}}}
        with translating(f"JobFlow {self.key}"):
            kube = (await self.client.session()).kube
            await kube.patch(JOB_FLOWS, self.key, body, PatchKind.MERGE)
            await kube.delete(JOB_FLOWS, self.key, uid=self.uid, propagation="Background")

    async def _value(self, flow: dict[str, Any], entry: str, number: int | None) -> Any:  # noqa: ANN401 - what the function returned
        collector = await self._collector(flow)
        place = _place(collector, entry, number)
        if collector.store and not is_elsewhere(collector.store):
            spec = await self._template_spec(collector, entry)
            return self._opened(collector, entry, number, await asyncio.to_thread(sealing.got, *place), spec)
        try:
            return await (await self.job(entry, number)).result()
        except (errors.NotFound, errors.ResultGone, errors.Usage):
            if not collector.store:
                raise
        spec = await self._template_spec(collector, entry)
        return self._opened(collector, entry, number, await fetched(self.client, self.namespace, *place, spec), spec)

    async def _template_spec(self, collector: Collector, entry: str) -> dict[str, Any]:
        """Return the spec of the JobTemplate of an entry."""
        name = f"{entry}-{self.name.rpartition('-')[2]}"
        with translating(f"JobTemplate {self.namespace}/{name}"):
            template = await collector.kube.get(JOB_TEMPLATES, Key(self.namespace, name))
        spec: dict[str, Any] = template["spec"]
        return spec

    def _opened(self, collector: Collector, entry: str, number: int | None, kept: bytes | None, spec: Mapping[str, Any]) -> Any:  # noqa: ANN401 - see above
        what, is_json = f"entry {entry} of JobFlow {self.key}", gives_json(spec)
        return stored_value(collector.key, collector.store, kept, entry=entry, number=number or 0, what=what, is_json=is_json)

    async def _collector(self, flow: dict[str, Any]) -> Collector:
        annotations = flow["metadata"].get("annotations") or {}
        if PAYLOAD not in annotations:
            text = f"JobFlow {self.key} runs no functions of this client, so it has no result"
            raise errors.Usage(f"{text}; `flow[ENTRY].logs()` has what it printed")
        kube = (await self.client.session()).kube
        key = await key_of(kube, Key(self.namespace, annotations[PAYLOAD]))
        return Collector(kube, self.key, key, annotations.get(SUBMISSION, ""), annotations.get(STORE, ""))

    def _same(self, flow: dict[str, Any]) -> dict[str, Any]:
        if flow["metadata"]["uid"] != self.uid:
            text = f"JobFlow {self.key} was deleted, and another one has its name now"
            raise errors.JobReplaced(f"{text}. `client.flow({self.name!r})` is a handle of that one")
        return flow


class Flow(Synchronous[AsyncFlow[R]], Generic[R]):
    """The handle of a flow: the methods of `AsyncFlow` without `await`. `flow[ENTRY]` is the Job of an entry."""

    def _repr_html_(self) -> str:
        status = self.status
        return flow_html(f"{self.handle.namespace}/{self.name}", status.phase, status.entries, status.messages)

    def __getitem__(self, entry: str | tuple[str, int]) -> Job[Any]:
        name, number = entry if isinstance(entry, tuple) else (entry, None)
        return Job(run(self.handle.job(name, number)))

    @property
    def name(self) -> str:
        """The name of the JobFlow."""
        return self.handle.name

    @property
    def status(self) -> FlowStatus:
        """The current phases of the flow and of its entries."""
        return run(self.handle.status())

    @property
    def phase(self) -> str:
        """The current phase of the flow."""
        return self.status.phase

    object = awaited(AsyncFlow.object)
    result = awaited(AsyncFlow.result)
    cancel = awaited(AsyncFlow.cancel)
    delete = awaited(AsyncFlow.delete)

    def wait(self, timeout: float | None = None, *, check: bool = True) -> Self:
        """Wait until the flow ends. See `AsyncFlow.wait`."""
        run(self.handle.wait(timeout, check=check))
        return self

    def retry(self) -> Flow[R]:
        """Wait until the flow ends. Then run the entries that have not completed, in a new flow. See `AsyncFlow.retry`."""
        return Flow(run(self.handle.retry()))


def _place(collector: Collector, entry: str, number: int | None) -> tuple[str, str]:
    """Return the URL of the store and the name of an entry's value in it."""
    return collector.store, f"{collector.submission}/entries/{entry}/{number or 0}/value"


def _entry_names(flow: dict[str, Any]) -> dict[str, str]:
    """Map names in the flow function to names of entries. An entry's name ends with letters that are unique to the submission."""
    suffix = "-" + flow["metadata"]["name"].rpartition("-")[2]
    names = [str(entry["name"]) for entry in flow["spec"].get("flows") or ()]
    return {name.removesuffix(suffix): name for name in names}


def _whole(status: FlowStatus) -> dict[str, str]:
    """Return the phases of entries. A loop has one phase for all its rounds: Completed only if every round is."""
    phases: dict[str, str] = {}
    for name, phase in status.entries.items():
        bare = name
        head, _, number = name.rpartition("-")
        if number.isdigit() and name not in status.plain and head in status.plain:
            bare = head
        phases[bare] = phase if phases.get(bare, "Completed") == "Completed" else phases[bare]
    return phases


def _status(flow: dict[str, Any]) -> FlowStatus:
    status = flow.get("status") or {}
    phase = str((status.get("state") or {}).get("phase") or "Pending")
    conditions = status.get("conditions") or {}
    entries, messages = {}, {}
    for bare, name in _entry_names(flow).items():
        job = f"{flow['metadata']['name']}-{name}"
        for known, condition in conditions.items():
            rest = known.removeprefix(job)
            if known == job or (known.startswith(f"{job}-") and rest[1:].isdigit()):
                entries[bare + rest] = str(condition.get("phase") or "")
                messages[bare + rest] = str(condition.get("message") or "")
    return FlowStatus(phase, entries, messages, frozenset(_entry_names(flow)))
