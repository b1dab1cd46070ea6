"""The settings of the board."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pyroclast.runtime.fields import Address, CommaSeparated, Duration, split_address
from pyroclast.runtime.settings import ServiceSettings

LONGEST_REVIEW: Final = timedelta(minutes=5)


class BoardSettings(ServiceSettings):
    """The flags of the board."""

    kube_api_qps: float = Field(100.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(100, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    listen_address: Address = Field(":8084", description="address of /metrics")
    page_address: Address = Field(":8091", description="address on which the pages are served")
    page_cert_file: str = Field("", description="TLS certificate for the pages; empty: plain HTTP")
    page_key_file: str = Field("", description="key of --page-cert-file")
    login: Literal["token", "proxy", "local"] = Field(
        "token",
        description="token: users log in with a token of the cluster; proxy: an authenticating proxy names users in headers; "
        "local: every user of this machine sees everything",
    )
    requestheader_client_ca_file: str = Field(
        "", description="CA of the proxy's client certificate; user headers from other clients are ignored"
    )
    requestheader_allowed_names: CommaSeparated = Field(
        (), description="common names of certificates that may name users; empty: any that the CA has signed"
    )
    requestheader_username_headers: CommaSeparated = Field(
        ("X-Remote-User",), description="headers that name the user; the first one in a request is used"
    )
    requestheader_group_headers: CommaSeparated = Field(
        ("X-Remote-Group",), description="headers with names of groups; each may have several, separated by commas"
    )
    requestheader_username_prefix: str = Field("", description="prefix of user names, as the API server's --oidc-username-prefix")
    requestheader_groups_prefix: str = Field("", description="prefix of group names, as the API server's --oidc-groups-prefix")
    session_key_file: str = Field(
        "", description="file with the key that seals login sessions, equal on all replicas; empty: a random key"
    )
    session_time: Duration = Field(timedelta(hours=12), description="time after which a user must log in again")
    review_period: Duration = Field(
        timedelta(minutes=1),
        description="time after which users and their rights are checked again at the API server",
    )
    recorder_url: str = Field("", description="URL of the recorder, for history; empty: no history")
    recorder_token_file: str = Field("", description="file with a token for the recorder")
    scheduler_url: str = Field(
        "",
        description="URL of the scheduler, for explanations; all its addresses are tried; empty: show the last known causes",
    )
    scheduler_token_file: str = Field("", description="file with a token for the scheduler")
    trace_url: str = Field(
        "", description="URL of the page of a trace, with {trace} for its id, such as https://grafana.example.org/trace/{trace}"
    )
    runbooks: str = Field("", description="URL of the page that says for each alert what helps; empty: no links")
    lease_namespace: str = Field("volcano-system", description="namespace of the Leases of the services")
    most_streams: int = Field(500, ge=1, le=10_000, description="most pages with live updates at the same time")

    @field_validator("recorder_url", "scheduler_url", "runbooks")
    @classmethod
    def _is_url(cls, url: str) -> str:
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc):
            raise ValueError(f'"{url}" is no URL such as http://127.0.0.1:8090')
        return url.rstrip("/")

    @field_validator("trace_url")
    @classmethod
    def _is_trace_url(cls, url: str) -> str:
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc or "{trace}" not in url):
            raise ValueError(f'"{url}" is no URL with {{trace}} in it, such as https://grafana.example.org/trace/{{trace}}')
        return url

    @field_validator("review_period")
    @classmethod
    def _is_short(cls, period: timedelta) -> timedelta:
        if not timedelta(0) < period <= LONGEST_REVIEW:
            raise ValueError("it is above 0 and at most 5m: a token that was revoked must not be good for longer")
        return period

    @model_validator(mode="after")
    def _proxy_proves_itself(self) -> Self:
        if bool(self.page_cert_file) != bool(self.page_key_file):
            raise ValueError("--page-cert-file and --page-key-file are only of use together")
        if self.login == "proxy" and not (self.page_cert_file and self.requestheader_client_ca_file):
            raise ValueError(
                "--login=proxy believes headers only of a client certificate: "
                "set --page-cert-file, --page-key-file and --requestheader-client-ca-file"
            )
        if self.login == "proxy" and not self.requestheader_username_headers:
            raise ValueError("--requestheader-username-headers is empty: name a header, such as X-Remote-User")
        if self.login != "proxy" and self.requestheader_client_ca_file:
            raise ValueError(f"--requestheader-client-ca-file has no effect with --login={self.login}: set --login=proxy")
        return self

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
