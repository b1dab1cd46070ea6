"""The settings of the recorder."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pyroclast.runtime.fields import Address, CommaSeparated, Duration
from pyroclast.runtime.settings import LeaderElectionSettings
from pyroclast_recorder.database.connections import WrongUrl, check_url


class RecorderSettings(LeaderElectionSettings):
    """The flags of the recorder."""

    leader_elect_resource_name: str = Field("pyroclast-recorder", description="name of the Lease")
    leader_elect_shards: int = Field(1, ge=1, le=1, description="always 1: one replica records all")
    kube_api_qps: float = Field(100.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(100, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    listen_address: Address = Field(":8083", description="address of /metrics")
    api_address: Address = Field(":8090", description="address of the HTTP API for history and usage")
    database_url: str = Field(
        "sqlite:///pyroclast-history.db",
        description="sqlite:///PATH, or postgresql://USER:PASSWORD@HOST/NAME, best set by the environment variable",
    )
    schedulers: CommaSeparated = Field(("volcano",), description="schedulers whose pods are recorded, beside the pods of Jobs")
    native_workloads: bool = Field(
        default=True, description="record native PodGroups (scheduling.k8s.io), if the API server serves them"
    )
    keep_pods: Duration = Field(timedelta(days=90), description="how long pods and causes are kept after their end")
    keep_jobs: Duration = Field(timedelta(days=400), description="how long Jobs are kept after they were removed")
    keep_usage: Duration = Field(timedelta(days=5 * 365), description="how long the usage of an hour is kept")
    keep_minutes: Duration = Field(timedelta(days=14), description="how long the usage of queues in each minute is kept")

    budget_period: Duration = Field(
        timedelta(minutes=1), description="shortest time between two writes of the spent budget of a queue; 0: never"
    )
    metrics_period: Duration = Field(
        timedelta(seconds=60), description="how often the use of pods is read from metrics.k8s.io; 0: never"
    )

    past_usage_half_life: Duration = Field(
        timedelta(), description="half-life of the past usage that is written to queues for fair shares; 0 writes nothing"
    )
    prometheus_url: str = Field(
        "", description="Prometheus from which the use of the pods of ended Jobs is read; empty: read from metrics.k8s.io"
    )

    notifications_file: str = Field(
        "", description="file with targets and rules of messages to people, in YAML; empty: no messages are sent"
    )

    @field_validator("prometheus_url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        if url and not (url.startswith(("http://", "https://")) and urlsplit(url).hostname):
            raise ValueError('must be a URL like "http://prometheus.monitoring.svc:9090"')
        return url

    @field_validator("past_usage_half_life")
    @classmethod
    def _is_no_instant(cls, half_life: timedelta) -> timedelta:
        if half_life and half_life < timedelta(hours=1):
            raise ValueError("must be 0 or at least 1h: an hour is what usage is added up in")
        return half_life

    @field_validator("database_url")
    @classmethod
    def _is_known(cls, url: str) -> str:
        try:
            check_url(url)
        except WrongUrl as error:
            raise ValueError(str(error)) from None
        return url

    @field_validator("keep_pods", "keep_jobs", "keep_usage", "keep_minutes")
    @classmethod
    def _is_long_enough(cls, duration: timedelta) -> timedelta:
        if duration < timedelta(hours=1):
            raise ValueError("must be at least 1h: an hour is what usage is added up in")
        return duration
