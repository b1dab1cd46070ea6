"""The sources from which HyperNodes are discovered, as configured in a ConfigMap, and the answers of UFM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.lifecycle.hypernodes import labels
from pyroclast.lifecycle.hypernodes.discovered import Found
from pyroclast.resources import durations

SOURCE: Final = "ufm"
_COMPUTER: Final = "Computer"


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the fabric: its node, and the switch at the other end of the cable. None means the same as an empty text."""

    description: str | None = ""
    tier: int | str | None = None
    system_name: str | None = ""
    node_description: str | None = ""
    peer_node_name: str | None = ""


def read_ports(body: bytes) -> list[Port]:
    """Return the ports in a response of UFM. Raises ValueError: the response is not a list of ports."""
    try:
        return msgspec.json.decode(body, type=list[Port])
    except msgspec.DecodeError as error:
        raise ValueError(f"the answer of UFM is no list of ports: {error}") from None


def discover(ports: Sequence[Port]) -> list[Found]:
    """Return the HyperNodes. Leaf switches that share nodes, directly or through other switches, form one HyperNode of tier 1.

    The HyperNode of tier 2 contains all HyperNodes of tier 1.
    """
    leaves: dict[str, set[str]] = {}
    for port in ports:
        if _COMPUTER in (port.description or "") and port.peer_node_name and port.system_name:
            leaves.setdefault(port.peer_node_name, set()).add(port.system_name)
    groups = _joined(leaves[name] for name in sorted(leaves))
    found = [Found(f"leaf-hn-{number}", 1, tuple(sorted(nodes))) for number, nodes in enumerate(groups)]
    if found:
        found.append(Found("spine-hn", 2, tuple(each.name for each in found), MemberType.HYPER_NODE))
    return found


def _joined(leaves: Iterable[set[str]]) -> list[set[str]]:
    """Merge the sets that share an element, directly or through other sets, in the order of their first set."""
    groups: list[set[str]] = []
    for nodes in leaves:
        touching = [group for group in groups if group & nodes]
        if not touching:
            groups.append(set(nodes))
            continue
        first, *others = touching
        first |= nodes
        for other in others:
            first |= other
            groups.remove(other)
    return groups


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

    Raises ConfigurationError: the configuration cannot be read, or names an unknown source.
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
    if name not in (labels.SOURCE, SOURCE):
        raise ConfigurationError(f"{where}.source: unsupported discoverer type: {name}; it must be {labels.SOURCE} or {SOURCE}")
    config = entry.get("config") or {}
    if not isinstance(config, dict):
        raise ConfigurationError(f"{where}.config must be a mapping")
    if name == SOURCE and not config.get("endpoint"):
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
