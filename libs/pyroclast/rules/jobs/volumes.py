"""Rules for the volumes of a Job: their mount paths and their claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyroclast.rules.errors import invalid, required
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.values import Json, mappings, text
from pyroclast.rules.verdicts import Finding, first_only, found

_CONFLICT = (
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
)


def check_volumes(volumes: Json, path: str) -> Sequence[Finding]:
    """Return all faults of the volumes at `path`; Volcano reports only the first."""
    return first_only(_check(volumes, path)) if volumes else ()


def volume_warnings(volumes: Json, path: str) -> list[str]:
    """Return warnings for volumes without a claim: each pod gets its own emptyDir, which is lost with the pod."""
    return [
        f"{path}[{index}]: no claim given, each pod gets an emptyDir"
        for index, volume in mappings(volumes)
        if not text(volume.get("volumeClaimName")) and not isinstance(volume.get("volumeClaim"), dict)
    ]


def _check(volumes: Json, path: str) -> Iterator[Finding]:
    mounted: set[str] = set()
    for index, volume in mappings(volumes):
        where = f"{path}[{index}]"
        mount, name = text(volume.get("mountPath")), text(volume.get("volumeClaimName"))
        if not mount:
            yield found(" mountPath is required;", required(f"{where}.mountPath", "mountPath is required"))
        elif mount in mounted:
            sentence = f"duplicated mountPath: {mount}"
            yield found(f" {sentence};", invalid(f"{where}.mountPath", mount, f"{sentence}; each volume needs its own"))
        mounted.add(mount)
        if name and isinstance(volume.get("volumeClaim"), dict):
            yield found(_CONFLICT, invalid(f"{where}.volumeClaimName", name, _CONFLICT))
        elif name and (problems := dns_subdomain(name)):
            sentence = f"invalid VolumeClaimName {name} : [{' '.join(problems)}]"
            yield found(sentence, invalid(f"{where}.volumeClaimName", name, sentence))
