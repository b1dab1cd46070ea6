"""Jobs that wait, all at the same time, and what each of the places where a user may ask says of why."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.types import EVENTS, JOBS, NAMESPACES, POD_GROUPS, PODS, QUEUES, RESOURCE_QUOTAS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.codes import codes_of

Json = dict[str, Any]
Step = Callable[[Client, str], Awaitable[None]]

JOB = "j"
STUCK = "nodes.pyroclast.dev/stuck-terminating"
NAME = "{name}"
"""Stands for the namespace of a case in its manifests, and for its queue and whatever else it has outside of that."""

LONGEST_SECONDS = 60.0
LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Case:
    """A Job that waits.

    Attributes:
        job: its manifest; it is called `JOB`.
        want: the cause, `*` for what depends on the other cases.
        before: what is there before it: Jobs that run or wait for room on nodes, quotas that count.
        afterwards: what is done once it waits.
        own: what it has outside of its namespace, in which order it goes.
        without_pods: why no pod can tell; empty where they do.
    """

    job: Json
    want: str
    before: Sequence[tuple[ResourceType, Json]] = ()
    afterwards: Step | None = None
    own: Sequence[tuple[ResourceType, str]] = ((QUEUES, NAME),)
    without_pods: str = ""

    @property
    def code(self) -> str:
        """The code of the cause."""
        return pending.reason_of(self.want)

    def is_cause(self, name: str, text: str) -> bool:
        """Whether `text` is the cause, for the namespace of that name."""
        return re.fullmatch(re.escape(self.want.replace(NAME, name)).replace(r"\*", ".*"), text) is not None


@dataclass(slots=True)
class Answers:
    """The causes that were found last in each place: what a user reads there, without the sentences before it."""

    name: str
    job: str = ""
    events: list[str] = field(default_factory=list)
    group: str = ""
    pods: list[str] = field(default_factory=list)
    run: str = ""
    codes: dict[str, str] = field(default_factory=dict)

    def differing(self, case: Case) -> dict[str, list[str]]:
        """The places that do not tell the cause of `case`, with what they tell; of Events one has to, older ones stay."""
        found = {"Job": [self.job], "PodGroup": [self.group], "pyroclast run": [self.run]}
        if not case.without_pods:
            found["pods"] = self.pods or [""]
        differing = {place: texts for place, texts in found.items() if not all(case.is_cause(self.name, text) for text in texts)}
        differing |= {place: [code] for place, code in self.codes.items() if code != case.code}
        is_told = any(case.is_cause(self.name, text) for text in self.events)
        return differing if is_told else {**differing, "Event": self.events}


Asked = dict[str, Answers]


async def until(holds: Callable[[], Awaitable[object]], what: str) -> None:
    """Ask until `holds` says yes.

    Raises:
        AssertionError: it did not within `LONGEST_SECONDS`.
    """
    for _ in range(int(LONGEST_SECONDS / LOOK_SECONDS)):
        if await holds():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"waited {LONGEST_SECONDS:.0f} s for {what}")


async def ask_everywhere(cluster: Cluster, folder: Path, cases: Mapping[str, Case]) -> Asked:
    """What was said of the Job of each case as soon as all places agreed, or when the time was over."""
    names = {title: f"waiting-{secrets.token_hex(4)}" for title in cases}
    async with Client(load_config(str(cluster.kubeconfig))) as client:
        try:
            await asyncio.gather(*(_prepare(client, names[title], case) for title, case in cases.items()))
            jobs = [_placed(case.job, names[title]) for title, case in cases.items()]
            async with _followed(cluster, folder, jobs) as output:
                asked = (_asked(client, names[title], case, output) for title, case in cases.items())
                answers = await asyncio.gather(*asked)
                codes = await codes_of(cluster, [(names[title], JOB, case.code) for title, case in cases.items()])
                for each, said in zip(answers, codes, strict=True):
                    each.codes = said
        finally:
            await asyncio.gather(*(_clean_up(client, names[title], case) for title, case in cases.items()))
    return dict(zip(cases, answers, strict=True))


def _placed(manifest: Mapping[str, Any], name: str) -> Json:
    placed: Json = json.loads(json.dumps(manifest).replace(NAME, name))
    placed.setdefault("metadata", {})["namespace"] = name
    return placed


def _is_up(job: Json) -> bool:
    """Whether a Job runs, or is said to be let in and to wait for room on nodes."""
    state = job.get("status", {}).get("state", {})
    return state.get("phase") == "Running" or "NodesFull" in state.get("message", "")


async def _prepare(client: Client, name: str, case: Case) -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for kind, manifest in case.before:
        made = _placed(manifest, name)
        if not kind.namespaced:
            del made["metadata"]["namespace"]
        await client.create(kind, made)

    async def is_there() -> bool:
        jobs, _ = await client.list(JOBS, name)
        quotas, _ = await client.list(RESOURCE_QUOTAS, name)
        return all(_is_up(job) for job in jobs) and all(quota.get("status", {}).get("hard") for quota in quotas)

    await until(is_there, f"what is there before the Job of {name}")
    if case.before:
        await asyncio.sleep(1)  # it must be older than the Job, and times of creation are whole seconds


async def _clean_up(client: Client, name: str, case: Case) -> None:
    pods, _ = await client.list(PODS, name)
    await _delete(client, NAMESPACES, Key("", name))
    for pod in pods:
        if pod["metadata"].get("annotations", {}).get(STUCK):
            await _delete(client, PODS, Key(name, pod["metadata"]["name"]), grace_seconds=0)
    for kind, own in case.own:
        await _delete(client, kind, Key("", own.replace(NAME, name)))

    async def is_gone() -> bool:
        pods, _ = await client.list(PODS, name)
        return not pods

    await until(is_gone, f"the pods of {name} to go")


async def _delete(client: Client, kind: ResourceType, key: Key, *, grace_seconds: int | None = None) -> None:
    try:
        await client.delete(kind, key, grace_seconds=grace_seconds)
    except NotFound:
        return


@asynccontextmanager
async def _followed(cluster: Cluster, folder: Path, jobs: Sequence[Json]) -> AsyncIterator[Path]:
    """`pyroclast run` submits the Jobs and follows them; the file of what it prints."""
    manifests, output = folder / "jobs.json", folder / "output"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))
    with output.open("w") as out:
        command = [sys.executable, "-m", "pyroclast_standalone", "run", "--kubeconfig", str(cluster.kubeconfig), str(manifests)]
        process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out)
    try:
        yield output
        assert process.returncode is None, output.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _asked(client: Client, name: str, case: Case, output: Path) -> Answers:
    """What is said of the Job of a case, at the latest when the time is over."""
    answers = Answers(name)

    async def waits() -> bool:
        await _look(client, name, output, answers)
        return bool(answers.job)

    async def agree() -> bool:
        await _look(client, name, output, answers)
        return not answers.differing(case)

    try:
        await until(waits, "a cause on the Job")
        if case.afterwards is not None:
            await case.afterwards(client, name)
        await until(agree, "one cause in all places")
    except AssertionError:
        return answers  # which show the difference
    return answers


async def _look(client: Client, name: str, output: Path, answers: Answers) -> None:
    try:
        job = await client.get(JOBS, Key(name, JOB))
    except NotFound:
        return
    uid = job["metadata"]["uid"]
    answers.job = job.get("status", {}).get("state", {}).get("message", "").removeprefix("waits: ")
    events, _ = await client.list(EVENTS, name, field_selector=f"involvedObject.uid={uid}")
    events.sort(key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
    answers.events = [pending.summary_of(event["message"]) for event in events if event["reason"] == "PodGroupPending"]
    pods, _ = await client.list(PODS, name, label_selector=f"volcano.sh/job-name={JOB}")
    try:
        group = await client.get(POD_GROUPS, Key(name, f"{JOB}-{uid}"))
        answers.group = pending.summary_of(_condition_of(group.get("status", {}), "Unschedulable"))
    except NotFound:  # a Job of one pod may have none: the pod tells what the PodGroup would
        answers.group = next((pending.summary_of(_condition_of(each["status"], "pyroclast.dev/Queued")) for each in pods), "")
    answers.pods = [pending.summary_of(_condition_of(pod["status"], "PodScheduled")) for pod in pods]
    answers.run = _shown_last(output, name)


def _condition_of(status: Mapping[str, Any], kind: str) -> str:
    """The message of the condition of that type; empty where there is none."""
    return next((str(each.get("message", "")) for each in status.get("conditions", []) if each["type"] == kind), "")


def _shown_last(output: Path, name: str) -> str:
    """The cause in the last line about the Job of a namespace."""
    lines = [line for line in output.read_text().splitlines() if f"  {name}/{JOB}  " in line]
    return pending.summary_of(lines[-1]) if lines else ""
