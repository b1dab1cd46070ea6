"""The sources from which HyperNodes are discovered, as configured in a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.lifecycle.hypernodes import labels, ufm
from pyroclast.resources import durations

KEY: Final = "volcano-controller.conf"
_HOUR: Final = 3600.0


class ConfigurationError(ValueError):
    """The configuration is invalid; the message names the faulty part."""


@dataclass(frozen=True, slots=True)
class Source:
    """An enabled source. `interval` is in seconds. `secret`: namespace and name of a Secret, both empty for none."""

    name: str
    interval: float = _HOUR
    secret: tuple[str, str] = ("", "")
    config: Mapping[str, Any] = field(default_factory=dict)


def read_sources(data: Mapping[str, str] | None) -> dict[str, Source]:
    """Return the enabled sources by name. `data`: the data of the ConfigMap; None when there is no ConfigMap.

    Raises:
        ConfigurationError: The configuration cannot be read, or names an unknown source.
    """
    if data is None:
        return {}
    if KEY not in data:
        raise ConfigurationError(f"the ConfigMap has no key {KEY}")
    import yaml  # noqa: PLC0415 - few clusters have such a configuration

    try:
        document = yaml.safe_load(data[KEY])
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{KEY} is not YAML: {error}") from None
    if document is None:
        return {}
    entries = document.get("networkTopologyDiscovery") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries or [], list):
        raise ConfigurationError(f"{KEY}: networkTopologyDiscovery must be a list of sources")
    sources = {}
    for place, entry in enumerate(entries or []):
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{KEY}: networkTopologyDiscovery[{place}] must have source and enabled")
        if entry.get("enabled") is True:
            source = _read(entry, f"{KEY}: networkTopologyDiscovery[{place}]")
            sources[source.name] = source
    return sources


def _read(entry: Mapping[str, Any], where: str) -> Source:
    name = str(entry.get("source") or "")
    if name not in (labels.SOURCE, ufm.SOURCE):
        raise ConfigurationError(
            f"{where}.source: unsupported discoverer type: {name}; it must be {labels.SOURCE} or {ufm.SOURCE}"
        )
    config = entry.get("config") or {}
    if not isinstance(config, dict):
        raise ConfigurationError(f"{where}.config must be a mapping")
    if name == ufm.SOURCE and not config.get("endpoint"):
        raise ConfigurationError(f"{where}.config.endpoint: Required value: the address of UFM")
    types = config.get("networkTopologyTypes") or {}
    if name == labels.SOURCE and not (isinstance(types, dict) and all(isinstance(tiers or [], list) for tiers in types.values())):
        raise ConfigurationError(f"{where}.config.networkTopologyTypes must name lists of labels")
    secret = _secret(entry.get("credentials") or {}, f"{where}.credentials")
    return Source(name, _interval(entry.get("interval"), where), secret, config)


def _secret(credentials: object, where: str) -> tuple[str, str]:
    reference = credentials.get("secretRef") or {} if isinstance(credentials, dict) else None
    if not isinstance(reference, dict):
        raise ConfigurationError(f"{where}.secretRef must have name and namespace")
    return str(reference.get("namespace") or ""), str(reference.get("name") or "")


def _interval(given: object, where: str) -> float:
    if given is None:
        return _HOUR
    try:
        seconds = durations.nanoseconds(str(given)) / 1e9
    except durations.DurationError:
        raise ConfigurationError(f"{where}.interval: {given} is not a duration such as 10m") from None
    return seconds if seconds > 0 else _HOUR
