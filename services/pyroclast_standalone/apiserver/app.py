"""The server as a whole: creates, connects, starts and stops its components."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from pyroclast_standalone.apiserver.access.audit import AuditLog
from pyroclast_standalone.apiserver.access.authn import Authenticator, TokenSigner
from pyroclast_standalone.apiserver.access.authz import Authorizer
from pyroclast_standalone.apiserver.access.identity import Identity, write_kubeconfig
from pyroclast_standalone.apiserver.admission.chain import Admission
from pyroclast_standalone.apiserver.admission.plugins import Classes, Plugins
from pyroclast_standalone.apiserver.admission.webhooks import Webhooks
from pyroclast_standalone.apiserver.controllers import crds, events
from pyroclast_standalone.apiserver.controllers.claims import ClaimController
from pyroclast_standalone.apiserver.controllers.gc import GarbageCollector
from pyroclast_standalone.apiserver.controllers.namespaces import NamespaceController
from pyroclast_standalone.apiserver.controllers.quotas import Quotas
from pyroclast_standalone.apiserver.http import Faults, Front
from pyroclast_standalone.apiserver.kinds import builtin_strategies
from pyroclast_standalone.apiserver.requests.bodies import MAX_BODY
from pyroclast_standalone.apiserver.storage.persist import JournalFailed, SqliteJournal
from pyroclast_standalone.apiserver.storage.registry import Registry, ensure_objects
from pyroclast_standalone.apiserver.storage.store import Store, make_stored
from pyroclast_standalone.apiserver.verbs.discovery import Discovery
from pyroclast_standalone.apiserver.verbs.dispatch import Dispatcher
from pyroclast_standalone.apiserver.verbs.logs import Logs
from pyroclast_standalone.apiserver.verbs.reviews import Reviews
from pyroclast_standalone.apiserver.verbs.subresources import Subresources
from pyroclast_standalone.apiserver.verbs.write import Writer

# revisions that are skipped at the start: a client may have seen ones that were not written before a crash
_RESTART_GAP: Final = 100_000
_SHUTDOWN_SECONDS: Final = 2.0


class Server:
    """The components of a server that does not listen yet."""

    def __init__(
        self,
        identity: Identity,
        *,
        journal: SqliteJournal | None,
        audit: AuditLog | None = None,
        faults: Faults | None = None,
        now: Callable[[], float] = time.time,
        schedulers: Sequence[str] = (),
        records_creators: bool = False,
    ) -> None:
        begin = journal.revision() if journal is not None else 0
        revision = begin + _RESTART_GAP if begin else 1
        self.identity = identity
        self.now = now
        self.store = Store(journal=journal, revision=revision)
        self.registry = Registry(self.store, builtin_strategies(), events.VIEWS)
        self.admission = Admission()
        self.definitions = crds.Definitions(self.store, self.registry, now)
        self.store.listeners.append(self.definitions.on_change)
        plugins = Plugins(self.store, self.registry, schedulers, records_creators=records_creators)
        classes = Classes(self.store)
        self.authorizer = Authorizer(self.store)
        self.webhooks = Webhooks(self.store, self.registry)
        self.admission.early += [*plugins.mutating, classes.fill_in]
        self.admission.mutating += [self.webhooks.mutate]
        self.admission.validating += [classes.check, plugins.warn_of_scheduler, self.webhooks.validate]
        self.quotas = Quotas(self.store, self.registry)
        self.admission.guards += [plugins.require_namespace, self.quotas.guard]
        signer = TokenSigner(identity.token_secret.read_bytes())
        self.authenticator = Authenticator(self.store, signer, now)
        self.writer = Writer(self.store, self.admission, now=now)
        authority = identity.authority.read_text()
        self.namespaces = NamespaceController(self.store, self.registry, self.writer, authority, now)
        self.garbage = GarbageCollector(self.store, self.registry, self.writer, now)
        self.cleanup = crds.DefinitionCleanup(self.store, self.registry, self.writer, now)
        self.claims = ClaimController(self.store, self.registry, now)
        self.writer.finishers[crds.COLLECTION] = self.definitions.settle_status
        self.logs = Logs(self.registry, identity.admin)
        subresources = Subresources(
            self.store,
            self.registry,
            self.writer,
            reviews=Reviews(self.authorizer, self.authenticator),
            signer=signer,
            logs=self.logs,
        )
        self.discovery = Discovery(self.registry)
        self.audit = audit
        self.front = Front(
            self.authenticator,
            self.authorizer,
            self.discovery,
            Dispatcher(self.store, self.registry, self.writer, subresources),
            audit,
            faults=faults,
            now=now,
        )
        self._journal = journal

    def load(self) -> None:
        """Read the journal, serve the stored custom resources, and create the default objects of a cluster."""
        if self._journal is not None:
            import orjson  # noqa: PLC0415

            for name, key, revision, data in self._journal.objects():
                collection = self.store.collection(name)
                collection.adopt(make_stored(collection, key, revision, orjson.loads(data)))
        self.definitions.serve_all()
        ensure_objects(self.store, self.registry, self.now())
        self.store.begin_history()

    @property
    def is_settled(self) -> bool:
        """Whether all controllers inside the server are idle."""
        return all(each.worker.is_idle for each in self._controllers)

    @property
    def _controllers(self) -> tuple[NamespaceController, GarbageCollector, crds.DefinitionCleanup, Quotas, ClaimController]:
        return self.namespaces, self.garbage, self.cleanup, self.quotas, self.claims

    async def _stop_when_broken(self) -> None:
        await self.store.broken.wait()
        raise JournalFailed(f"cannot write state: {self.store.failure}") from self.store.failure

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the background tasks. At the end, everything is closed.

        Raises JournalFailed: writes can no longer be stored durably. Raised within an exception group.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._stop_when_broken()), group.create_task(events.expire(self.store, self.now))]
                if self._journal is not None:
                    tasks.append(group.create_task(self._journal.keep_log_short()))
                for controller in self._controllers:
                    controller.start()
                    tasks.append(group.create_task(controller.worker.run()))
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            await self._close()

    async def _close(self) -> None:
        self.store.flush()
        await self.logs.close()
        await self.webhooks.close()
        if self._journal is not None:
            self._journal.close()
        if self.audit is not None:
            self.audit.close()


@contextlib.asynccontextmanager
async def serving(
    directory: Path,
    *,
    port: int = 0,
    in_memory: bool = False,
    audit_log: Path | None = None,
    **options: Any,  # noqa: ANN401 - passed on to Server
) -> AsyncIterator[tuple[Server, str]]:
    """Serve on 127.0.0.1 until the block ends. Yield the server and its URL. First write `directory/kubeconfig`.

    Raises DamagedData: the data directory cannot be used; OSError: the port is in use.
    """
    identity = Identity(directory)
    if not identity.is_complete:
        from pyroclast_standalone import certificates  # noqa: PLC0415 - slow to import, needed once

        certificates.make(identity)
    journal = None if in_memory else SqliteJournal(directory / "state.db")
    audit = AuditLog(audit_log) if audit_log else None
    server = Server(identity, journal=journal, audit=audit, **options)
    server.load()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(identity.authority))
    tls.load_cert_chain(*identity.serving)
    tls.verify_mode = ssl.CERT_OPTIONAL
    handler = web.Server(
        server.front.handle, request_factory=_request, handler_cancellation=True, access_log=None, keepalive_timeout=600
    )
    runner = web.ServerRunner(handler, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, backlog=1024)
    async with server.running():
        try:
            await site.start()
            bound = runner.addresses[0][1]
            server.discovery.address = f"127.0.0.1:{bound}"
            url = f"https://127.0.0.1:{bound}"
            write_kubeconfig(directory / "kubeconfig", url, identity)
            yield server, url
        finally:
            for collection in server.store.collections():
                for subscription in collection.subscriptions:
                    subscription.close()
            await runner.cleanup()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:  # noqa: ANN401 - aiohttp's own
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=MAX_BODY)
