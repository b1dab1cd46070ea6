"""The claims of a pod: PersistentVolumeClaims and ResourceClaims."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import GroupClaim


class VolumeClaim(NamedTuple):
    """A PersistentVolumeClaim that a pod uses. `is_own`: of an ephemeral volume, so that it is deleted with the pod."""

    key: str
    name: str
    is_own: bool


def has_claims(spec: records.PodSpec) -> bool:
    """Whether a pod of this `spec` uses any claim."""
    return bool(spec.resource_claims) or any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in spec.volumes
    )


def volume_claims(pod: records.Pod) -> tuple[VolumeClaim, ...]:
    """Return the PersistentVolumeClaims of a pod, each once, in the order of its volumes."""
    found: dict[str, VolumeClaim] = {}
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name, is_own = volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            name, is_own = f"{pod.metadata.name}-{volume.name}", True
        else:
            continue
        key = f"{namespace}/{name}"
        found.setdefault(key, VolumeClaim(key, name, is_own))
    return tuple(found.values())


def device_claims(pod: records.Pod) -> Mapping[str, str | None]:
    """Return the ResourceClaims of a pod as namespace/name, by the name that the pod gives each claim.

    The value is None for a claim that does not exist yet. A claim template for which the pod turned out to need no claim is left
    out.
    """
    made = {each.get("name"): each for each in pod.status.resource_claim_statuses}
    found: dict[str, str | None] = {}
    for entry in pod.spec.resource_claims:
        name = str(entry.get("name") or "")
        claim = entry.get("resourceClaimName")
        if not claim and name in made:
            claim = made[name].get("resourceClaimName")
            if not claim:
                continue
        found[name] = f"{pod.metadata.namespace}/{claim}" if claim else None
    return found


def shared_claims(pod: records.Pod, claims: Collection[GroupClaim]) -> frozenset[str]:
    """Return those ResourceClaims of a pod, by namespace/name, that are among `claims` of its group.

    A claim of the pod and a claim of the group are the same if they have the same name and the same source.
    """
    if not claims:
        return frozenset()
    of_group = set(claims)
    own = (
        GroupClaim(*(str(each.get(field) or "") for field in ("name", "resourceClaimName", "resourceClaimTemplateName")))
        for each in pod.spec.resource_claims
    )
    names = {each.name for each in own if each in of_group}
    return frozenset(key for name, key in device_claims(pod).items() if key is not None and name in names)


def class_counts(claim: records.ResourceClaim) -> dict[str, int]:
    """Return the number of devices that `claim` requests, by device class, as ResourceQuotas count them.

    A request for all devices or with alternatives has no number in advance and is left out.
    """
    counts: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        wish = request.exactly
        if wish is not None and wish.device_class_name and wish.allocation_mode != "All":
            counts[wish.device_class_name] = counts.get(wish.device_class_name, 0) + (wish.count or 1)
    return counts
