"""Wiring of the admission service: caches, certificates, watched files and server."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final

import structlog
from msgspec import structs
from prometheus_client import Gauge

from pyroclast.api.records import Queue
from pyroclast.api.types import MUTATING_WEBHOOKS, QUEUES, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules.resourcegroups import ConfigurationError, ResourceGroup, read_groups
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.in_process.jobs import has_pod_resources
from pyroclast.runtime.in_process.queues import QueueCache
from pyroclast.runtime.service import Service
from pyroclast.runtime.time_zones import TimeZones
from pyroclast.runtime.tls import ServingTls, TlsFiles
from pyroclast_admission.authorization import Authorizer, QueueUse
from pyroclast_admission.caches import FlowCache, NamespaceCache, PriorityCache, QuotaCache, TemplateCache, WaitingJobs
from pyroclast_admission.certificates.inject import BundleInjector
from pyroclast_admission.engine import Engine, Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS, Mode
from pyroclast_admission.known import Known, Options
from pyroclast_admission.lookup import Fetcher
from pyroclast_admission.server import WebhookServer
from pyroclast_admission.settings import POD_LEVEL_RESOURCES, AdmissionSettings


def parse_configuration(content: bytes) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of the file. ConfigurationError: it is not YAML, or not an admission configuration."""
    import yaml  # noqa: PLC0415 - most installations have no such file

    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from None
    return read_groups(document)


LOOK_EVERY_SECONDS: Final = 2.0
"""How often the file is read. The kubelet updates a mounted ConfigMap within about a minute, so this period adds little."""


class FileWatcher:
    """Passes on the content of a file whenever it changes; when `use` raises ValueError, the previous content stays in effect.

    A mounted volume swaps symbolic links, so the contents are compared.
    """

    def __init__(self, path: Path, use: Callable[[bytes], None]) -> None:
        self._path, self._use = path, use
        self._content: bytes | None = None

    def load(self) -> None:
        """Read the watched file now. OSError: it cannot be read. ValueError: `use` rejects the content."""
        content = self._path.read_bytes()
        if content != self._content:
            self._use(content)
            self._content = content

    async def run(self) -> None:
        """Read the file periodically until cancelled. Each new problem is logged once."""
        complaint = ""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            try:
                self.load()
                complaint = ""
            except (OSError, ValueError) as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.warning("file.unusable", file=str(self._path), error=complaint)


log = structlog.get_logger()

RETRY_SECONDS: Final = 0.5
LONGEST_RETRY_SECONDS: Final = 5.0
NAMING_SCHEDULERS: Final = frozenset({"/jobs/validate", "/cronjobs/validate", "/jobtemplates/validate"})
"""The webhooks that warn when an object names a scheduler that is not running."""


class AdmissionService:
    """Builds the components of the service, and returns the current objects and options for the webhooks."""

    def __init__(self, settings: AdmissionSettings, service: Service, client: Client, options: Options) -> None:
        self._settings, self._service, self._client = settings, service, client
        self._webhooks = [webhook for webhook in WEBHOOKS if webhook.path in settings.enabled_admission]
        self._tls = ServingTls()
        self._queues = QueueCache(Informer(client, QUEUES, Queue))
        flows, namespaces, templates = FlowCache(client), NamespaceCache(client), TemplateCache(client)
        service.watch(self._queues.informer)
        if "/jobtemplates/validate" in settings.enabled_admission:
            service.watch(flows.informer)
        if "/jobflows/validate" in settings.enabled_admission:
            service.watch(templates.informer)
        if {"/podgroups/mutate", "/podgroups/restore"} & set(settings.enabled_admission):
            service.watch(namespaces.informer)
        classes, quotas = PriorityCache(client), QuotaCache(client)
        if "/jobs/validate" in settings.enabled_admission:
            service.watch(classes.informer)
            service.watch(quotas.informer)
        self._schedulers = SchedulerLeases(client)
        self._waiting = WaitingJobs(client, self._queues)
        self._known = Known(
            self._queues,
            flows.using,
            namespaces.annotations,
            options,
            TimeZones(),
            templates,
            classes,
            quotas.forbidding,
            waiting=self._waiting,
        )

    @classmethod
    async def serve(cls, settings: AdmissionSettings, service: Service) -> None:
        """Run the service until it is cancelled."""
        serving = asyncio.Event()
        service.add_ready("webhooks", lambda: None if serving.is_set() else "webhooks are not served yet")
        client = await service.client()
        options = await asyncio.to_thread(settings.options)  # reads the installed packages
        if not settings.has_certificate_files:  # a slow import, done before there are connections
            await asyncio.to_thread(import_module, "pyroclast_admission.certificates.keeper")
        await cls(settings, service, client, options)._serve(serving)

    async def _serve(self, serving: asyncio.Event) -> None:
        self._follow_configuration()
        overload, metrics = Overload(), ReviewMetrics(self._service.metrics)
        await self._provide_certificates(metrics.missing)
        if POD_LEVEL_RESOURCES not in self._settings.feature_gates:
            options = self._known.options
            jobs = dataclasses.replace(options.jobs, pod_level_resources=await known_pod_resources(self._client))
            self._known = structs.replace(self._known, options=dataclasses.replace(options, jobs=jobs))
        fetcher = Fetcher(self._client, self._queues)

        def known() -> Known:
            return structs.replace(self._known, schedulers=self._schedulers.current)

        engine = Engine(
            self._webhooks,
            known,
            fetcher.fetch,
            authorize=Authorizer(self._client, self._settings.webhook_namespace).refusal,
            may_use=QueueUse(self._client).refusal if self._settings.queue_access == "checked" else None,
            overload=overload,
            metrics=metrics,
            traces=self._service.traces,
        )
        names = frozenset(self._settings.client_name)
        server = WebhookServer(engine, metrics, self._tls.context, lambda: self._service.is_stopping, client_names=names)
        self._service.spawn("overload", overload.run())
        if NAMING_SCHEDULERS & set(self._settings.enabled_admission):
            self._service.spawn("schedulers", self._schedulers.run())
        await self._service.synced()
        if "/jobs/validate" in self._settings.enabled_admission:
            self._service.spawn("waiting-jobs", self._waiting.run())
        await server.start(self._settings.listen_address, self._settings.port)
        serving.set()
        log.info("webhooks.serving", port=server.port, paths=[webhook.path for webhook in self._webhooks])
        try:
            await self._service.forever()
        finally:
            await server.stop()

    async def _provide_certificates(self, missing: Gauge) -> None:
        """Obtain a serving certificate and write its CA bundle into the webhook configurations, now and until cancelled.

        `missing` shows how many of the configurations are not installed.
        """
        names = {
            kind: [webhook.configuration(self._settings.configurations_of) for webhook in self._webhooks if webhook.mode is mode]
            for kind, mode in ((MUTATING_WEBHOOKS, Mode.MUTATING), (VALIDATING_WEBHOOKS, Mode.VALIDATING))
        }
        settings = self._settings
        if settings.client_ca_file:
            self._follow(Path(settings.client_ca_file), self._require_clients, "client-ca-file")
        injects = not settings.has_certificate_files or bool(settings.ca_cert_file)
        injector = BundleInjector(self._client, names)
        missing.set_function(lambda: len(injector.missing()))
        if injects:
            for informer in injector.informers.values():
                self._service.watch(informer, is_needed=False)
            self._service.add_ready("ca-bundle", injector.pending)
            self._service.spawn("ca-bundle", injector.run())
        if settings.has_certificate_files:
            self._follow_files(injector)
        else:
            await self._keep_certificates(injector)

    def _follow_files(self, injector: BundleInjector) -> None:
        settings = self._settings
        followed = TlsFiles(self._tls, Path(settings.tls_cert_file), Path(settings.tls_private_key_file))
        followed.load()
        self._service.spawn("tls-files", followed.follow())
        if settings.ca_cert_file:
            self._follow(Path(settings.ca_cert_file), injector.trust, "ca-file")

    def _require_clients(self, authority: bytes) -> None:
        try:
            self._tls.require_clients(authority)
        except ValueError as error:
            if not self._tls.requires_clients:
                raise StartFailure(f"--client-ca-file: {error}") from error
            log.error("tls.not_reloaded", certificate=self._settings.client_ca_file, error=str(error))  # noqa: TRY400 - says why

    def _follow(self, file: Path, use: Callable[[bytes], None], task: str) -> None:
        authority = FileWatcher(file, use)
        try:
            authority.load()
        except OSError as error:
            raise StartFailure(f"Failed to parse CA file: failed to read cacert file ({error.filename}): {error}") from error
        self._service.spawn(task, authority.run())

    async def _keep_certificates(self, injector: BundleInjector) -> None:
        from pyroclast_admission.certificates.issue import Material  # noqa: PLC0415
        from pyroclast_admission.certificates.keeper import CertificateKeeper  # noqa: PLC0415 - `serve` has imported it
        from pyroclast_admission.certificates.plan import Policy  # noqa: PLC0415

        provided = asyncio.Event()

        def use(material: Material) -> None:
            self._tls.use(material.certificate, material.key)
            injector.trust(material.bundle)
            provided.set()

        settings = self._settings
        policy = Policy(settings.names, settings.ca_validity, settings.certificate_validity, settings.certificate_overlap)
        key = Key(settings.webhook_namespace or "default", settings.webhook_secret_name)
        keeper = CertificateKeeper(
            self._client, key, policy, now=lambda: datetime.now(UTC), use=use, known_since=injector.known_since
        )
        self._service.add_ready("certificate", lambda: None if provided.is_set() else f"Secret {key} cannot be had yet")
        self._service.spawn("certificates", keeper.run())
        await provided.wait()

    def _follow_configuration(self) -> None:
        path = self._settings.admission_conf
        if not path:
            return

        def use(content: bytes) -> None:
            self._known = structs.replace(self._known, resource_groups=parse_configuration(content))
            log.info("configuration.loaded", file=path, groups=len(self._known.resource_groups))

        watcher = FileWatcher(Path(path), use)
        try:
            watcher.load()
        except (OSError, ValueError) as error:
            log.warning("configuration.unusable", file=path, error=str(error))
        self._service.spawn("configuration", watcher.run())


async def known_pod_resources(client: Client) -> bool:
    """Whether pods of this Kubernetes version have pod-level resources. Reads the version until the API server answers."""
    backoff = jittered_backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
    while True:
        try:
            return await has_pod_resources(client)
        except KubeError as error:  # the API server may be unavailable for a while
            log.warning("version.not_read", error=str(error))
        await asyncio.sleep(backoff.next())
