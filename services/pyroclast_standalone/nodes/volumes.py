"""The files in a pod's volumes from ConfigMaps, Secrets, the downward API and tokens, which are read before. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyroclast.api.types import Key
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.environment import ConfigurationError, Place, Read, field_value, resource_value
from pyroclast_standalone.nodes.sources import Reference

_DEFAULT_MODE = 0o644
_DEFAULT_TOKEN_SECONDS = 3600
_CLUSTER_CA = "kube-root-ca.crt"  # published by kube-controller-manager; pods also run in a cluster without it

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class File:
    """The content and the mode of a file."""

    content: bytes
    mode: int = _DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A token that a projected volume requests."""

    path: str
    audience: str
    seconds: int


def references(pod: records.Pod) -> list[Reference]:
    """Return the ConfigMaps and Secrets in the volumes of `pod`."""
    return [_reference(pod, kind, source) for volume in pod.spec.volumes for kind, source in _sources(volume) if kind in _KEYED]


def tokens(volume: Json) -> list[TokenWish]:
    """Return the tokens in a volume."""
    return [
        TokenWish(str(s.get("path", "")), str(s.get("audience", "")), int(s.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS))
        for kind, s in _sources(volume)
        if kind == "serviceAccountToken"
    ]


def files(
    pod: records.Pod, volume: Json, place: Place, read: Read, issued: Mapping[TokenWish, str] | None = None
) -> dict[str, File] | None:
    """Return the files of `volume` by path. None if the content of the volume is not in the API.

    Raises ConfigurationError: a required object or key does not exist.
    """
    found: dict[str, File] = {}
    known = False
    for kind, source in _sources(volume):
        known = True
        mode = source.get("defaultMode") or volume.get("projected", {}).get("defaultMode") or _DEFAULT_MODE
        if kind in _KEYED:
            found |= _keyed(_reference(pod, kind, source), source, read, mode)
        elif kind == "downwardAPI":
            for item in source.get("items") or ():
                found[str(item.get("path", ""))] = File(_downward(pod, item, place).encode(), item.get("mode") or mode)
    for wish, token in (issued or {}).items():
        found[wish.path] = File(token.encode(), 0o600)
    return found if known else None


_KEYED = {"configMap": "ConfigMap", "secret": "Secret"}


def _sources(volume: Json) -> Iterator[tuple[str, Json]]:
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            yield kind, volume[kind]
    for projection in (volume.get("projected") or {}).get("sources") or ():
        yield from projection.items()


def _reference(pod: records.Pod, kind: str, source: Json) -> Reference:
    name = str(source.get("name") or source.get("secretName") or "")
    return Reference(_KEYED[kind], Key(pod.metadata.namespace, name), bool(source.get("optional")) or name == _CLUSTER_CA)


def _keyed(reference: Reference, source: Json, read: Read, mode: int) -> dict[str, File]:
    content = read.get((reference.kind, reference.key))
    if content is None:
        if reference.is_optional:
            return {}
        raise ConfigurationError(f'{reference.kind.lower()} "{reference.key.name}" not found')
    items = source.get("items")
    if not items:
        return {name: File(value, mode) for name, value in content.items()}
    found = {}
    for item in items:
        if item["key"] in content:
            found[str(item["path"])] = File(content[item["key"]], item.get("mode") or mode)
        elif not reference.is_optional:
            kind = "config" if reference.kind == "ConfigMap" else "secret"
            raise ConfigurationError(f"references non-existent {kind} key: {item['key']}")
    return found


def _downward(pod: records.Pod, item: Json, place: Place) -> str:
    if "fieldRef" in item:
        path = str(item["fieldRef"].get("fieldPath"))
        return field_value(pod, path, pod_ip=place.pod_ip, host_ip=place.host_ip) or ""
    reference = item.get("resourceFieldRef") or {}
    container = next((c for c in pod.spec.containers if c.name == reference.get("containerName")), pod.spec.containers[0])
    return resource_value(container, reference, place.allocatable) or ""
