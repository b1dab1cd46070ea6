"""The asynchronous client: submits, finds and lists Jobs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final, Self, TypeVar, overload

from pyroclast.api.keys import DRIVER_ALIVE_UNTIL, SUBMITTED_BY
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, QUEUES, SECRETS, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, Forbidden, NotFound
from pyroclast.kube.credentials.config import ClusterConfig, find_config
from pyroclast.kube.http.node_facts import NodeFacts, node_facts
from pyroclast.kube.http.servers import whoami
from pyroclast.rules import jobs as rules
from pyroclast.rules.verdicts import applied
from pyroclast_client import errors
from pyroclast_client.checking import Fit, checked_job, fit_of
from pyroclast_client.compilation import IMAGE_VARIABLE, Compiled, Surroundings, compiled
from pyroclast_client.documents import EXECUTOR, SUBMISSION, Document, Submittable, documents_of, fresh_name, label_of
from pyroclast_client.flow_compilation import CompiledFlow, FlowCall
from pyroclast_client.flow_handles import AsyncFlow
from pyroclast_client.handles import AsyncJob
from pyroclast_client.options import Call, SweepCall, TaskOptions
from pyroclast_client.sessions import Session, alive_until, here
from pyroclast_client.submission import create, create_job, give_to, key_of_secret, make_secret, remove_secret
from pyroclast_client.sweeps import AsyncSweep
from pyroclast_client.translation import translating

R = TypeVar("R")

STEM: Final = "job"
HERE: Final = "local"
"""An image that is not used: the nodes run the interpreter of this machine."""


class AsyncClient:
    """A client of one cluster with the credentials of one user, connected on first use in the calling process and event loop.

    Args:
        context: the name of a kubeconfig context. The current context by default.
        namespace: the namespace of submitted objects. The namespace of the context by default.
        queue: the queue of Jobs that name no queue.
        image: the image of functions that name no image.
        store: the URL at which large results and code are stored, such as `file:///shared/folder`.
        kubeconfig: the path of a kubeconfig file. By default the client finds the file as kubectl does.
    """

    def __init__(
        self,
        context: str | None = None,
        namespace: str | None = None,
        queue: str | None = None,
        image: str | None = None,
        store: str | None = None,
        *,
        kubeconfig: str | None = None,
    ) -> None:
        self._context, self._namespace = context or "", namespace or ""
        self.queue, self.image, self.store, self._kubeconfig = queue, image, store, kubeconfig or ""
        self.python = ""
        self._facts: NodeFacts | None = None
        self.env: dict[str, str] = {}
        self._session: Session | None = None
        self._config: ClusterConfig | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._context or 'current context'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self._context, self._namespace, self.queue, self.image, self.store)
        return partial(AsyncClient, kubeconfig=self._kubeconfig), given

    async def __aenter__(self) -> Self:
        await self.session()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def config(self) -> ClusterConfig:
        """The address of the cluster and the credentials of the user.

        Raises:
            NoCluster: no kubeconfig exists, or the client cannot use it.
        """
        if self._config is None:
            with translating("the kubeconfig"):
                self._config = find_config(self._kubeconfig, context=self._context)
        return self._config

    @property
    def kubeconfig(self) -> str:
        """The path of the kubeconfig, empty when the caller gave none."""
        return self._kubeconfig

    @property
    def namespace(self) -> str:
        """The namespace of submitted objects."""
        return self._namespace or self.config.namespace

    async def session(self) -> Session:
        """Return the open connection of this process and event loop."""
        if self._session is None or self._session.owner != here() or self._session.has_failed:
            self._session = Session(self.config)
        with translating("the API server"):
            return await self._session.ready()

    async def close(self) -> None:
        """Close the connection. The submitted Jobs continue."""
        session, self._session = self._session, None
        if session is not None and session.owner == here() and not session.has_failed:
            await session.close()

    @overload
    async def submit(self, anything: Call[R], *, name: str | None = None, dry_run: bool = False) -> AsyncJob[R]: ...
    @overload
    async def submit(self, anything: SweepCall[R], *, name: str | None = None, dry_run: bool = False) -> AsyncSweep[R]: ...
    @overload
    async def submit(self, anything: FlowCall[R], *, name: str | None = None, dry_run: bool = False) -> AsyncFlow[R]: ...
    @overload
    async def submit(self, anything: Submittable, *, name: str | None = None, dry_run: bool = False) -> AsyncJob[Any]: ...
    async def submit(
        self, anything: object, *, name: str | None = None, dry_run: bool = False
    ) -> AsyncJob[Any] | AsyncSweep[Any] | AsyncFlow[Any]:
        """Submit a Job: the call of a task, a model, a dict, the path of a manifest, or the text of a manifest.

        The client first checks the Job with the rules of the server. When a Job of the same name and content exists already, the
        handle of that Job is returned.

        Args:
            anything: the object to submit.
            name: the name of the Job. When neither `name` nor the manifest has a name, the client generates one.
            dry_run: the server only checks the object and stores nothing.

        Raises:
            Rejected: the object breaks rules. The error has the path of each field.
        """
        if isinstance(anything, Call):
            return await self._submit_call(anything, name or fresh_name(anything.name), dry_run=dry_run)
        if isinstance(anything, FlowCall):
            await self.look_around()
            anything = self.compiled_flow(anything)
        if isinstance(anything, CompiledFlow):
            return await self._submit_flow(anything)
        if isinstance(anything, SweepCall):
            return await self._submit_sweep(anything, name or fresh_name(anything.name), dry_run=dry_run)
        document = self.prepared(self._one_job(anything, "submit"), name)
        created = await create_job((await self.session()).kube, document, dry_run=dry_run)
        metadata = created["metadata"]
        return AsyncJob(self, metadata["namespace"], metadata["name"], metadata.get("uid", ""))

    @staticmethod
    def _one_job(anything: object, what: str) -> Document:
        documents = documents_of(anything)
        if len(documents) != 1 or documents[0]["kind"] != JOBS.kind:
            kinds = ", ".join(document["kind"] for document in documents)
            raise errors.Usage(f"{what}: takes one Job at a time; this is {kinds}")
        return documents[0]

    @property
    def surroundings(self) -> Surroundings:
        """The namespace and defaults that this client adds to the calls of functions. Call `look_around` before."""
        facts = self._facts or NodeFacts()
        image = self.image or (os.environ.get(IMAGE_VARIABLE) or HERE if facts.is_here else None)
        python = self.python or (sys.executable if facts.is_here else "python3")
        folder = os.getcwd() if facts.is_here else ""
        return Surroundings(self.namespace, self.queue, image, self.store, python, self.env, facts.products, folder)

    async def look_around(self, options: TaskOptions | None = None) -> None:
        """Learn from the nodes whether they are this machine or only simulated, and for a type of GPUs, which types there are."""
        needs_all = options is not None and bool(options.gpu_type)
        if self._facts is not None and not (needs_all and not self._facts.products):
            return
        facts = NodeFacts()
        with translating("the nodes"), contextlib.suppress(Forbidden):
            facts = await node_facts((await self.session()).kube, all_nodes=needs_all)
        if facts.is_simulated and self._facts is None:
            text = "the nodes of this cluster only pretend to run commands, so functions have no result"
            warnings.warn(
                f"{text}; `pyroclast up` without --nodes runs them on this machine", errors.PyroclastWarning, stacklevel=2
            )
        self._facts = facts

    async def _submit_call(self, call: Call[R], name: str, *, dry_run: bool = False) -> AsyncJob[R]:
        await self.look_around(call.options)
        # pickling runs code of the user, which may use a client: never in an event loop
        made = await asyncio.to_thread(compiled, call.function, [call.arguments], call.options, self.surroundings, name=name)
        return await self.submit_compiled(made, dry_run=dry_run)

    async def _submit_sweep(self, call: SweepCall[R], name: str, *, dry_run: bool = False) -> AsyncSweep[R]:
        """Submit a sweep as Jobs of at most a thousand pods each."""
        sweep = AsyncSweep(self, call)
        await self.look_around(call.options)
        await sweep.start(range(len(call.arguments)), name, dry_run=dry_run)
        return sweep

    def compiled_flow(self, call: FlowCall[R]) -> CompiledFlow:
        """Return the objects of a flow. The function of the flow runs in the thread of the caller, and may use a client."""
        return call.compiled(self.surroundings, salt=secrets.token_hex(8))

    async def _submit_flow(self, made: CompiledFlow) -> AsyncFlow[Any]:
        """Submit a flow: first the JobFlow, then its Secret and templates, for which the JobFlow waits.

        The JobFlow owns the Secret and the templates, so that all are deleted together, also when one of them is refused.
        """
        session = await self.session()
        kube = session.kube
        with translating(label_of(made.flow)):
            await session.own_in_store(made.flow)
            created = await create(kube, JOB_FLOWS, made.flow)
        metadata = created["metadata"]
        owner = {"apiVersion": JOB_FLOWS.api_version, "kind": JOB_FLOWS.kind, "name": metadata["name"], "uid": metadata["uid"]}
        try:
            for kind, document in ((SECRETS, made.secret), *((JOB_TEMPLATES, template) for template in made.templates)):
                owned = {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}
                with translating(label_of(document)):
                    await create(kube, kind, owned)
        except (errors.Rejected, errors.Forbidden):
            with contextlib.suppress(Forbidden, NotFound):
                await kube.delete(JOB_FLOWS, Key(metadata["namespace"], metadata["name"]), uid=metadata["uid"])
            raise
        return AsyncFlow(self, metadata["namespace"], metadata["name"], metadata["uid"])

    async def fits(self, anything: object) -> Fit:
        """Return whether a Job would start now, and the reason if it would not. Nothing is created.

        Args:
            anything: an object as for `submit`, except sweeps and flows.

        Raises:
            Rejected: the object breaks rules. The error has the path of each field.
            NoCluster: the scheduler, which alone can try the Job, gives no answer.
        """
        if isinstance(anything, Call):
            await self.look_around(anything.options)
            options, around = anything.options, self.surroundings
            made = await asyncio.to_thread(compiled, anything.function, [anything.arguments], options, around, name=anything.name)
            document = self.prepared(made.job)
        else:
            document = self.prepared(self._one_job(anything, "fits"))
        with translating("whether a Job fits"):
            return await fit_of((await self.session()).kube, applied(document, rules.default(document)))

    async def flow(self, name: str) -> AsyncFlow[Any]:
        """Return the handle of a JobFlow by `NAME` or `NAMESPACE/NAME`.

        Raises:
            NotFound: the JobFlow does not exist.
        """
        return AsyncFlow(self, *await self._found(JOB_FLOWS, name))

    async def submit_part(self, call: SweepCall[R], indices: Sequence[int], name: str, *, dry_run: bool = False) -> AsyncJob[R]:
        """Submit one Job for some indices of a sweep."""
        arguments = [call.arguments[index] for index in indices]
        await self.look_around(call.options)
        options, around = call.options, self.surroundings
        made = await asyncio.to_thread(
            compiled, call.function, arguments, options, around, name=name, is_sweep=True, executor=call.executor
        )
        return await self.submit_compiled(made, dry_run=dry_run)

    async def submit_compiled(self, made: Compiled, *, dry_run: bool = False) -> AsyncJob[Any]:
        """Create the Job of a call, with its Secret."""
        document, session = self.prepared(made.job), await self.session()
        metadata, kube = document["metadata"], session.kube
        ends_with_us = DRIVER_ALIVE_UNTIL in metadata["annotations"]
        if ends_with_us:
            metadata["annotations"][DRIVER_ALIVE_UNTIL] = alive_until(kube)
        if dry_run:
            await create_job(kube, document, dry_run=True)
            return AsyncJob(self, metadata["namespace"], metadata["name"], "")
        name = Key(metadata["namespace"], made.secret["metadata"]["name"])
        with translating("the store"):
            await session.own_in_store(document)
        session.pending.note(name)
        secret, is_new = await make_secret(kube, made.secret)
        try:
            created = await create_job(kube, document)
        except (errors.Rejected, errors.Forbidden):
            # the Secret is deleted already, or another client will find it by its label
            if is_new:  # else it may belong to a Job that runs
                with contextlib.suppress(Forbidden, NotFound, Conflict):
                    await remove_secret(kube, name, uid=secret["metadata"]["uid"])
                    session.pending.forget(name)
            raise
        if ends_with_us:
            session.keep_alive(Key(metadata["namespace"], metadata["name"]), created["metadata"]["uid"])
        await give_to(kube, secret, created)
        session.pending.forget(name)
        with translating("Secrets of clients before"):
            await session.remove_orphans(metadata["namespace"])
        return AsyncJob(self, metadata["namespace"], metadata["name"], created["metadata"]["uid"], key=key_of_secret(secret))

    def prepared(self, document: Document, name: str | None = None) -> Document:
        """Return the Job with its namespace, name and queue, after the rules accepted it.

        Raises:
            Rejected: the Job breaks rules.
        """
        metadata = document["metadata"]
        stem = str(metadata.pop("generateName", "") or STEM)
        metadata["name"] = name or metadata.get("name") or fresh_name(stem)
        spec = document.get("spec")
        if isinstance(spec, dict) and self.queue and not spec.get("queue"):
            spec["queue"] = self.queue
        for warning in checked_job(document):
            warnings.warn(warning, errors.PyroclastWarning, stacklevel=3)
        metadata.setdefault("namespace", self.namespace)
        annotations = metadata["annotations"] = dict(metadata.get("annotations") or {})
        annotations.setdefault(SUBMISSION, sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16])
        return document

    async def job(self, name: str) -> AsyncJob[Any]:
        """Return the handle of a Job by `NAME` or `NAMESPACE/NAME`.

        Raises:
            NotFound: the Job does not exist.
        """
        return AsyncJob(self, *await self._found(JOBS, name))

    async def _found(self, kind: ResourceType, name: str) -> tuple[str, str, str]:
        """Return namespace, name and UID of an object by `NAME` or `NAMESPACE/NAME`."""
        key = Key.parse(name)
        key = Key(key.namespace or self.namespace, key.name)
        with translating(f"{kind.kind} {key}"):
            found = await (await self.session()).kube.get(kind, key)
        return key.namespace, key.name, found["metadata"]["uid"]

    async def jobs(
        self, *, queue: str | None = None, phase: str | None = None, mine: bool = False, executor: str | None = None
    ) -> list[AsyncJob[Any]]:
        """Return the Jobs of the namespace, newest first.

        Args:
            queue: only Jobs of this queue.
            phase: only Jobs in this phase.
            mine: only Jobs that this user submitted.
            executor: only Jobs of the executor or pool of this name, also of a program that has ended.
        """
        selector = f"{EXECUTOR}={executor}" if executor else ""
        kube = (await self.session()).kube
        with translating(f"the Jobs of namespace {self.namespace}"):
            items, _ = await kube.list(JOBS, self.namespace, label_selector=selector)
        if mine:
            user = await whoami(kube)
            items = [item for item in items if (item["metadata"].get("annotations") or {}).get(SUBMITTED_BY) == user]
        chosen = [
            item
            for item in items
            if (queue is None or (item.get("spec") or {}).get("queue", "default") == queue)
            and (phase is None or ((item.get("status") or {}).get("state") or {}).get("phase") == phase)
        ]
        chosen.sort(key=lambda item: str(item["metadata"]["creationTimestamp"]), reverse=True)
        return [AsyncJob(self, self.namespace, item["metadata"]["name"], item["metadata"]["uid"]) for item in chosen]

    async def queues(self) -> list[dict[str, Any]]:
        """Return the Queue objects."""
        with translating("the Queues"):
            items, _ = await (await self.session()).kube.list(QUEUES)
        return items
