"""The board's settings."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pyroclast.runtime.addresses import Address, split_address
from pyroclast.runtime.durations import Duration
from pyroclast.runtime.settings import ServiceSettings

__all__ = ["BoardSettings"]


class BoardSettings(ServiceSettings):
    """What can be set."""

    kube_api_qps: float = Field(100.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(100, ge=0, description="how many of them at once")
    listen_address: Address = Field(":8084", description="where to serve /metrics")
    page_address: Address = Field(":8091", description="where to serve the pages")
    login: Literal["token", "local"] = Field(
        "token", description="token: users show a token of the cluster; local: whoever is on this machine sees everything"
    )
    session_key_file: str = Field(
        "", description="file whose content seals sessions, the same for all replicas; empty: a random one"
    )
    session_time: Duration = Field(timedelta(hours=12), description="after which a user must log in again")
    recorder_url: str = Field("", description="URL of the recorder, for history; empty: none")
    recorder_token_file: str = Field("", description="file with a token for the recorder")
    scheduler_url: str = Field("", description="URL of the scheduler that leads, for what it alone knows; empty: none")
    lease_namespace: str = Field("volcano-system", description="namespace of the Leases of the services")
    most_streams: int = Field(500, ge=1, le=10_000, description="pages that may be followed live at the same time")

    @field_validator("recorder_url", "scheduler_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc):
            raise ValueError(f'"{url}" is no URL such as http://127.0.0.1:8090')
        return url.rstrip("/")

    @model_validator(mode="after")
    def _local_is_local(self) -> Self:
        host, _ = split_address(self.page_address)
        if self.login == "local" and not _is_loopback(host):
            raise ValueError(
                f"--login=local shows everything to whoever reaches --page-address={self.page_address}: "
                "listen on 127.0.0.1, or set --login=token"
            )
        return self


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"
