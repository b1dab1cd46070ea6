"""Volumes that are legal and do not do what they seem to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity

__all__ = ["warn_of_fractions", "warn_of_volumes"]

_GONE: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_Path = tuple[str, str]  # and what it comes from


def warn_of_fractions(resources: Mapping[str, str] | None, names: Iterable[str], path: str) -> Iterator[str]:
    """Parts of a byte."""
    for name in names:
        amount = (resources or {}).get(name)
        if amount is not None and quantity.parse(amount).millis % 1000:
            yield f'{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def warn_of_volumes(volumes: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Warnings about the volumes of a pod."""
    for index, volume in enumerate(volumes):
        for kind, text in _GONE.items():
            if kind in volume:
                yield f"{path}[{index}].{kind}: {text}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}
        resources = (template.get("spec") or {}).get("resources") or {}
        for kind in ("requests", "limits"):
            own = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec.resources.{kind}"
            yield from warn_of_fractions(resources.get(kind), ("storage",), own)
    for volume in volumes:
        yield from _overlaps(volume)


def _overlaps(volume: Mapping[str, Any]) -> Iterator[str]:
    name = volume.get("name", "")
    for kind, field, word in (("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret"), ("downwardAPI", "", "")):
        if source := volume.get(kind):
            shown = f'{word} "{source.get(field, "")}"' if word else "DownwardAPI"
            for text in _colliding([(item.get("path", ""), "") for item in source.get("items") or ()]):
                yield f'volume "{name}" ({shown}): overlapping paths: {text}'
    if projected := volume.get("projected"):
        paths: list[_Path] = []
        for source in projected.get("sources") or ():
            if not source:
                yield f'volume "{name}" (Projected) has no sources provided'
            paths += _projected(source)
        for text in _colliding(paths):
            yield f'volume "{name}" (Projected): overlapping paths: {text}'


def _projected(source: Mapping[str, Any]) -> list[_Path]:
    for kind, word in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        if items := (source.get(kind) or {}).get("items"):
            shown = word if kind == "downwardAPI" else f'{word} "{source[kind].get("name", "")}"'
            return [(item.get("path", ""), shown) for item in items]
    token = source.get("serviceAccountToken")
    return [(token.get("path", ""), "ServiceAccountToken")] if token else []


def _colliding(paths: Iterable[_Path]) -> Iterator[str]:
    seen: list[_Path] = []
    for target, source in paths:
        own = (target.rstrip("/"), source)
        yield from (f"{_shown(own)} with {_shown(other)}" for other in seen if _collide(own[0], other[0]))
        seen.append(own)


def _collide(one: str, other: str) -> bool:
    return bool(one and other) and (one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/"))


def _shown(path: _Path) -> str:
    target, source = path
    return f'"{target}" ({source})' if source else f'"{target}"'
