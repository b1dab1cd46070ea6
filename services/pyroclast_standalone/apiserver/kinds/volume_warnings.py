"""Volumes that are legal and do not do what they seem to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity

from .token_volume import TOKEN_PROJECTION

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
_WITH_ITEMS: Final = (("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret"), ("downwardAPI", "", "DownwardAPI"))
_UNIT: Final = 10**9  # nanos
_Path = tuple[str, str]  # and what it comes from


def warn_of_fractions(resources: Mapping[str, str] | None, names: Iterable[str], path: str) -> list[str]:
    """Parts of a byte."""
    return [
        f'{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'
        for name in names
        if resources and (amount := resources.get(name)) is not None and _is_fraction(quantity.parse(amount))
    ]


def _is_fraction(amount: quantity.Quantity) -> bool:
    return amount.nanos % _UNIT != 0 and amount.millis % 1000 != 0


def warn_of_volumes(volumes: Sequence[Mapping[str, Any]], path: str) -> list[str]:
    """Warnings about the volumes of a pod."""
    told: list[str] = []
    for index, volume in enumerate(volumes):
        if not _GONE.keys().isdisjoint(volume):
            told += [f"{path}[{index}].{kind}: {text}" for kind, text in _GONE.items() if kind in volume]
        if "ephemeral" in volume:
            told += _claim(volume["ephemeral"].get("volumeClaimTemplate") or {}, f"{path}[{index}].ephemeral.volumeClaimTemplate")
    for volume in volumes:
        told += _overlaps(volume)
    return told


def _claim(template: Mapping[str, Any], path: str) -> list[str]:
    resources, own = (template.get("spec") or {}).get("resources") or {}, f"{path}.spec.resources"
    return [
        text for kind in ("requests", "limits") for text in warn_of_fractions(resources.get(kind), ("storage",), f"{own}.{kind}")
    ]


def _overlaps(volume: Mapping[str, Any]) -> list[str]:
    name = volume.get("name", "")
    told: list[str] = []
    for kind, field, word in _WITH_ITEMS:
        if kind in volume and (items := volume[kind].get("items")):
            shown = f'{word} "{volume[kind].get(field, "")}"' if field else word
            overlaps = _colliding([(item.get("path", ""), "") for item in items])
            told += [f'volume "{name}" ({shown}): overlapping paths: {text}' for text in overlaps]
    if "projected" in volume and volume["projected"] != TOKEN_PROJECTION:
        paths: list[_Path] = []
        for source in volume["projected"].get("sources") or ():
            if not source:
                told.append(f'volume "{name}" (Projected) has no sources provided')
            paths += _projected(source)
        told += [f'volume "{name}" (Projected): overlapping paths: {text}' for text in _colliding(paths)]
    return told


def _projected(source: Mapping[str, Any]) -> list[_Path]:
    for kind, field, word in _WITH_ITEMS:
        if kind in source and (items := source[kind].get("items")):
            shown = f'{word} "{source[kind].get("name", "")}"' if field else word
            return [(item.get("path", ""), shown) for item in items]
    token = source.get("serviceAccountToken")
    return [(token.get("path", ""), "ServiceAccountToken")] if token else []


def _colliding(paths: Sequence[_Path]) -> list[str]:
    names = {target for target, _ in paths}
    if len(names) == len(paths) and "/" not in "".join(names):
        return []
    told: list[str] = []
    seen: list[_Path] = []
    for target, source in paths:
        own = (target.rstrip("/"), source)
        told += [f"{_shown(own)} with {_shown(other)}" for other in seen if _collide(own[0], other[0])]
        seen.append(own)
    return told


def _collide(one: str, other: str) -> bool:
    return bool(one and other) and (one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/"))


def _shown(path: _Path) -> str:
    target, source = path
    return f'"{target}" ({source})' if source else f'"{target}"'
