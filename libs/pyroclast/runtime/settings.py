"""Settings of a service: flags, then environment (PYROCLAST_*), then the file of --config, then defaults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeVar

from pydantic_settings import BaseSettings

from pyroclast.runtime.durations import Duration

__all__ = ["LeaderElectionSettings", "ServiceSettings", "parse"]


class ServiceSettings(BaseSettings):
    """What every service understands; a service adds its own fields in a subclass."""

    kubeconfig: str = ""
    master: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    healthz_address: str = ":11251"
    enable_healthz: bool = False
    listen_address: str = ":8080"
    enable_metrics: bool = False
    kube_api_qps: float = 0.0
    kube_api_burst: int = 0
    ca_cert_file: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    otel_endpoint: str = ""


class LeaderElectionSettings(BaseSettings):
    """Mixed into the settings of services of which one replica at a time works."""

    leader_elect: bool = True
    leader_elect_lease_duration: Duration = timedelta(seconds=15)
    leader_elect_renew_deadline: Duration = timedelta(seconds=10)
    leader_elect_retry_period: Duration = timedelta(seconds=2)
    leader_elect_resource_lock: str = "leases"
    leader_elect_resource_namespace: str = "volcano-system"
    leader_elect_resource_name: str = ""


S = TypeVar("S", bound=ServiceSettings)


def parse(cls: type[S], argv: Sequence[str], prog: str) -> S:
    """The settings of `prog` started with `argv` (without the program name).

    Prints one clear line on stderr and exits with status 2 when a flag, variable or file is wrong; `--help` and `--version` exit with 0.
    """
    raise NotImplementedError
