"""The settings of the admission service, which are its flags."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.lifecycle.plugins.made import made_for
from pyroclast.rules.lookups import MOST_PODS, JobOptions
from pyroclast.rules.queues import QueueLimits
from pyroclast.runtime.fields import Address, CommaSeparated, Duration, Names
from pyroclast.runtime.in_process.jobs import installed_plugins
from pyroclast.runtime.settings import ServiceSettings
from pyroclast_admission.handlers import WEBHOOKS
from pyroclast_admission.known import Options

POD_LEVEL_RESOURCES: Final = "PodLevelResources"
"""The feature gate for pod-level resources. When it is not set, the version of the API server decides."""
_PATHS: Final = tuple(webhook.path for webhook in WEBHOOKS)
DEFAULT_WEBHOOKS: Final = tuple(webhook.path for webhook in WEBHOOKS if not webhook.is_optional)


class AdmissionSettings(ServiceSettings):
    """The flags of the admission service besides the flags that every service has."""

    listen_address: str = Field("", description="host name or address on which the webhooks are served; empty: all addresses")
    port: int = Field(8443, ge=1, le=65535, description="port on which the webhooks are served")
    metrics_address: Address = Field(":8080", description="address of /metrics")
    enabled_admission: CommaSeparated = Field(DEFAULT_WEBHOOKS, description="paths of the webhooks to serve")
    scheduler_name: Names = Field(("volcano",), description="name of a scheduler for pods of Jobs; may be repeated")
    admission_conf: str = Field("", description="file with the resource groups of pods; reloaded when it changes")
    webhook_namespace: str = Field("", description="namespace of --webhook-service-name and of Pyroclast's other programs")
    webhook_service_name: str = Field("", description="name of the Service under which the API server calls the webhooks")
    webhook_url: str = Field("", description="URL under which the API server calls the webhooks, instead of a Service")
    webhook_secret_name: str = Field("volcano-admission-secret", description="Secret with the certificates")
    client_ca_file: str = Field(
        "", description="CA of the API server's client certificate; without such a certificate no webhook answers; reloaded"
    )
    client_name: Names = Field((), description="common name of a client certificate that may call webhooks; may be repeated")
    certificate_validity: Duration = Field(timedelta(days=90), description="how long a serving certificate is valid")
    ca_validity: Duration = Field(timedelta(days=365), description="how long the CA of the serving certificates is valid")
    certificate_overlap: Duration = Field(timedelta(minutes=2), description="how long an old and a new CA are trusted together")
    max_queue_depth: int = Field(5, ge=1, description="most levels of nested queues")
    enable_root_queue_protection: bool = Field(default=True, description="reject changes of the root queue's resources")
    enable_queue_allocated_pods_check: bool = Field(
        default=False, description="reject the deletion of queues with allocated pods"
    )
    job_plugins: CommaSeparated = Field((), description="names of third-party plugins that are installed in the job controller")
    max_pods_per_job: int = Field(MOST_PODS, ge=1, description="most pods of one Job, and of all Jobs of one HyperJob")
    allow_job_placement: bool = Field(
        default=False, description="let Jobs name the node of a pod, and schedulers other than --scheduler-name"
    )
    queue_access: Literal["open", "checked"] = Field(
        "open", description="who may use a queue: everyone, or who has the verb use on it (SubjectAccessReview)"
    )
    enable_flow_protection: bool = Field(
        default=True, description="reject the deletion of running flows and of the templates that they use"
    )

    @property
    def metrics_listen_address(self) -> str:
        """The address at which metrics are served."""
        return self.metrics_address

    @property
    def names(self) -> frozenset[str]:
        """The host names and IP addresses for which the serving certificate is valid."""
        names = {"localhost", "127.0.0.1"}
        if host := urlsplit(self.webhook_url).hostname:
            names.add(host)
        if self.webhook_service_name:
            service = f"{self.webhook_service_name}.{self.webhook_namespace or 'default'}"
            names |= {self.webhook_service_name, service, f"{service}.svc", f"{service}.svc.cluster.local"}
        return frozenset(names)

    @property
    def configurations_of(self) -> str:
        """The Service after which the webhook configurations are named, also when they call a URL."""
        return self.webhook_service_name or "pyroclast-admission-service"

    @property
    def has_certificate_files(self) -> bool:
        """Whether the serving certificate is read from files."""
        return bool(self.tls_cert_file)

    def options(self) -> Options:
        """Return the options of the webhooks that follow from these flags."""
        limits = QueueLimits(
            max_depth=self.max_queue_depth,
            protect_root=self.enable_root_queue_protection,
            keep_allocated=self.enable_queue_allocated_pods_check,
        )
        gates = self.feature_gates
        schedulers = self.scheduler_name or ("volcano",)
        jobs = JobOptions(
            plugins=(*BUILT_IN, *self.job_plugins, *installed_plugins()),
            pod_level_resources=gates.get(POD_LEVEL_RESOURCES, True),
            max_pods=self.max_pods_per_job,
            schedulers=None if self.allow_job_placement else schedulers,
            made=made_for,
        )
        return Options(
            scheduler_names=schedulers,
            queue_limits=limits,
            jobs=jobs,
            queue_gates=gates.get("SchedulingGatesQueueAdmission", False),
            guard_flows=self.enable_flow_protection,
            namespace=self.webhook_namespace,
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        unknown = [path for path in self.enabled_admission if path not in _PATHS]
        if unknown:
            raise ValueError(
                f"--enabled-admission: enabled admission {unknown[0]} not found on the admission registered map; "
                f"there are {', '.join(_PATHS)}"
            )
        if not (self.webhook_url or self.webhook_namespace or self.webhook_service_name):
            raise ValueError(
                "failed to start webhooks as both 'url' and 'namespace/name' of webhook are empty; "
                "set --webhook-url, or --webhook-namespace and --webhook-service-name"
            )
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("--tls-cert-file and --tls-private-key-file are only of use together")
        if self.client_name and not self.client_ca_file:
            raise ValueError("--client-name has no effect without --client-ca-file")
        if self.certificate_overlap * 6 > self.certificate_validity or self.certificate_validity > self.ca_validity:
            raise ValueError(
                "--certificate-overlap must be at most a sixth of --certificate-validity, and that at most --ca-validity"
            )
        missing = [
            name
            for name in (self.tls_cert_file, self.tls_private_key_file, self.ca_cert_file, self.client_ca_file)
            if name and not Path(name).is_file()
        ]
        if missing:
            raise ValueError(f"{missing[0]} is not a file that can be read")
        return self
