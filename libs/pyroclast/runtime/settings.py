"""Settings of a service, in this order of precedence: flags, environment (PYROCLAST_*), the file of --config, defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar, get_origin

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from pyroclast.api.types import Key
from pyroclast.kube.credentials.config import NotYaml, read_yaml
from pyroclast.runtime.fields import Address, CommaSeparated, Duration, FeatureGates, format_duration
from pyroclast.runtime.flags import FlagError, FlagKind, read_flags

PREFIX: Final = "PYROCLAST_"
DEBUG_VERBOSITY: Final = 5  # from this --v on, manifests for klog want debug output


class SettingsError(Exception):
    """The settings are invalid. The text is one line: the flag, variable or file, the error, and the correct form."""


class ServiceSettings(BaseSettings):
    """The settings of every service; a service adds its own fields in a subclass.

    A field `some_name` is set by the flag `--some-name`, the variable `PYROCLAST_SOME_NAME` and the key `some-name` of the file.
    Its description is its help text.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, enable_decoding=False, extra="forbid", frozen=True, validate_default=True
    )

    config: str = Field("", description="file with settings (YAML: flag names and values)")
    kubeconfig: str = Field("", description="kubeconfig of the API server; empty: the service account of the pod")
    master: str = Field("", description="URL of the API server; overrides the kubeconfig")
    kube_api_qps: float = Field(0.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(0, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level of logged lines")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="form of the log; auto: console on a terminal, else json"
    )
    enable_healthz: bool = Field(default=False, description="serve /healthz, /livez and /readyz")
    healthz_address: Address = Field(":11251", description="address of /healthz, /livez and /readyz")
    enable_metrics: bool = Field(default=False, description="serve /metrics")
    listen_address: Address = Field(":8080", description="address of /metrics")
    trust_local_clients: bool = Field(
        default=False,
        description="let processes of this machine read debug pages, history and explanations without a token",
    )
    ca_cert_file: str = Field(
        "", description="CA of client certificates; with a serving certificate and key, health is served over TLS"
    )
    tls_cert_file: str = Field("", description="serving certificate")
    tls_private_key_file: str = Field("", description="key of the serving certificate")
    otel_endpoint: str = Field("", description="URL of an OTLP/HTTP collector for traces")
    shutdown_delay_duration: Duration = Field(
        timedelta(0),
        description="how long the service still answers requests after SIGTERM, while it reports not ready",
    )
    graceful_shutdown_time: Duration = Field(
        timedelta(seconds=30), description="how long stopping may take after --shutdown-delay-duration"
    )
    uvloop: bool = Field(default=True, description="use uvloop, a faster event loop, if it is installed")
    feature_gates: FeatureGates = Field({}, description="feature gates of Kubernetes, as Gate=true,Other=false")

    @property
    def metrics_listen_address(self) -> str:
        """The listen address of metrics. A service that uses `--listen-address` for another purpose overrides this."""
        return self.listen_address

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - always this class
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `load` reads it, to know the source of an invalid value
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not used
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not used
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the passed values: `load` merges the sources."""
        return (init_settings,)


class LeaderElectionSettings(ServiceSettings):
    """Settings of services of which only one replica at a time works (or one replica per shard)."""

    leader_elect: bool = Field(default=True, description="work only while holding the Lease")
    leader_elect_lease_duration: Duration = Field(
        timedelta(seconds=15), description="time without renewal after which another replica takes the Lease"
    )
    leader_elect_renew_deadline: Duration = Field(
        timedelta(seconds=10), description="time without renewal after which the leader stops"
    )
    leader_elect_retry_period: Duration = Field(timedelta(seconds=2), description="time between two renewals of the Lease")
    leader_elect_resource_lock: Literal["leases"] = Field("leases", description="kind of the lock")
    leader_elect_resource_namespace: str = Field("volcano-system", description="namespace of the Lease")
    leader_elect_resource_name: str = Field("", description="name of the Lease")
    leader_elect_identity: str = Field("", description="holder of the Lease, different for each process; empty: a random name")
    leader_elect_wait_for: CommaSeparated = Field(
        (), description="Leases of other programs for the same work, as NAMESPACE/NAME; the service waits while one is held"
    )
    leader_elect_wait_for_app: str = Field(
        "", description="label app of Deployments of another program for the same work; the service waits while one has replicas"
    )
    lock_object_namespace: str = Field("", description="deprecated name of --leader-elect-resource-namespace; is used when set")
    leader_elect_shards: int = Field(1, ge=1, le=64, description="number of shards into which replicas divide the work")

    @property
    def predecessors(self) -> list[Key]:
        """The Leases named by `leader_elect_wait_for`."""
        return [Key(*each.split("/")) for each in self.leader_elect_wait_for]

    @property
    def lease_namespace(self) -> str:
        """The namespace of the Lease."""
        return self.lock_object_namespace or self.leader_elect_resource_namespace

    @field_validator("leader_elect_wait_for")
    @classmethod
    def _named(cls, leases: tuple[str, ...]) -> tuple[str, ...]:
        for each in leases:
            if len(list(filter(None, each.split("/")))) != 2 or each.count("/") != 1:
                raise ValueError(f"--leader-elect-wait-for: {each!r} must be NAMESPACE/NAME, such as volcano-system/volcano")
        return leases

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not timedelta() < self.leader_elect_retry_period < self.leader_elect_renew_deadline < self.leader_elect_lease_duration:
            raise ValueError(
                f"--leader-elect-retry-period ({format_duration(self.leader_elect_retry_period)}) must be shorter than "
                f"--leader-elect-renew-deadline ({format_duration(self.leader_elect_renew_deadline)}), and that shorter than "
                f"--leader-elect-lease-duration ({format_duration(self.leader_elect_lease_duration)})"
            )
        return self


S = TypeVar("S", bound=ServiceSettings)


def parse(cls: type[S], argv: Sequence[str], prog: str) -> S:
    """Return the settings of `prog` from `argv` (without the program name).

    When a flag, variable or file is invalid, prints one line to stderr and exits with status 2. `--help` and `--version` print to
    stdout and exit with 0.
    """
    try:
        flags = read_flags(argv, {_dashed(name): _kind(field) for name, field in cls.model_fields.items()})
        if flags.get("help") == "true":
            sys.stdout.write(_help(cls, prog))
            raise SystemExit(0)
        if flags.get("version") == "true":
            sys.stdout.write(f"{prog} {_version()}\n")
            raise SystemExit(0)
        return load(cls, flags)
    except (FlagError, SettingsError) as error:
        sys.stderr.write(f"{prog}: {error}\n")
        raise SystemExit(2) from None


def load(cls: type[S], flags: Mapping[str, str | list[str]]) -> S:
    """Return the settings from `flags` (by name, with dashes), the environment, and the configuration file.

    Raises SettingsError: a value or the file is invalid.
    """
    names = {_dashed(field): field for field in cls.model_fields}
    from_flags: dict[str, Any] = {names[flag]: value for flag, value in flags.items() if flag in names}
    if "log_level" not in from_flags and _verbosity(flags.get("v")) >= DEBUG_VERBOSITY:
        from_flags["log_level"] = "debug"
    from_environment = _environment(cls)
    path = str(from_flags.get("config") or from_environment.get("config") or "")
    from_file = _file(path, names) if path else {}
    merged = {**from_file, **from_environment, **from_flags}
    try:
        return cls(**merged)
    except ValidationError as error:
        sources = {
            **{field: f"file {path}, {_dashed(field)}" for field in from_file},
            **{field: f"environment variable {PREFIX}{field.upper()}" for field in from_environment},
            **{field: f"flag --{_dashed(field)}" for field in from_flags},
        }
        problems = [_problem(each, sources) for each in error.errors(include_url=False)]
        raise SettingsError("; ".join(dict.fromkeys(problems))) from None


def _environment(cls: type[ServiceSettings]) -> dict[str, Any]:
    """Return the settings from the environment; an empty variable counts as unset.

    In a namespace with a Service named pyroclast, Kubernetes sets variables such as PYROCLAST_PORT=tcp://… in all pods. These are
    ignored.
    """
    found = EnvSettingsSource(cls, env_ignore_empty=True)()
    return {field: value for field, value in found.items() if not str(value).startswith("tcp://")}


def _file(path: str, names: Mapping[str, str]) -> dict[str, Any]:
    try:
        document = read_yaml(Path(path))
    except OSError as error:
        raise SettingsError(f"file {path} (--config): {error.strerror}") from error
    except NotYaml as error:
        raise SettingsError(f"file {path}: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"file {path}: not a mapping of flag names to values")
    found = {}
    for key, value in document.items():
        field = names.get(str(key).replace("_", "-"))
        if field is None or field == "config":
            raise SettingsError(f"file {path}: {key} is not a setting; --help lists all")
        found[field] = value
    return found


_WRONG: Final = {
    "int_parsing": "is not a whole number",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "literal_error": "is not one of {expected}",
    "greater_than": "is not greater than {gt}",
    "greater_than_equal": "is less than {ge}",
    "less_than": "is not less than {lt}",
    "less_than_equal": "is greater than {le}",
    "string_type": "is not text",
}


def _problem(error: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    context = error.get("ctx") or {}
    if error["type"] == "value_error":
        what = str(context.get("error"))
    elif error["type"] in _WRONG:
        what = f'"{error.get("input")}" {_WRONG[error["type"]].format(**context)}'
    else:
        what = f'"{error.get("input")}": {error["msg"]}'
    if not error["loc"]:
        return what
    field = str(error["loc"][0])
    return f"{sources.get(field, f'setting {_dashed(field)}')}: {what}"


def _kind(field: FieldInfo) -> FlagKind:
    if field.annotation is bool:
        return FlagKind.SWITCH
    return FlagKind.REPEATED if get_origin(field.annotation) in {tuple, list, Mapping} else FlagKind.VALUE


def _verbosity(value: str | list[str] | None) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() else 0


def _dashed(field: str) -> str:
    return field.replace("_", "-")


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - only for --version

    return version("pyroclast")


def _help(cls: type[ServiceSettings], prog: str) -> str:
    lines = [
        f"usage: {prog} [--flag=value …]",
        "",
        "Each flag is also an environment variable: --log-level is PYROCLAST_LOG_LEVEL.",
        "",
    ]
    for name, field in cls.model_fields.items():
        default = _shown(field.default)
        lines.append(f"  --{_dashed(name)}  {field.description or ''}" + (f" (default {default})" if default else ""))
    return "\n".join(lines) + "\n"


def _shown(default: object) -> str:
    match default:
        case timedelta():
            return format_duration(default)
        case bool():
            return str(default).lower()
        case tuple() | list():
            return ",".join(map(str, default))
        case Mapping():
            return ",".join(f"{gate}={str(state).lower()}" for gate, state in default.items())
    return str(default or "")
