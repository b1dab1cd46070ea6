"""Which claims a pod uses: on volumes, and on devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyroclast.api import records
from pyroclast_scheduler.model.group_tree import GroupClaim

__all__ = ["VolumeClaim", "class_counts", "device_claims", "has_claims", "shared_claims", "volume_claims"]


class VolumeClaim(NamedTuple):
    """A claim by namespace/name. `is_own`: made for the pod from its own template, and gone with it."""

    key: str
    name: str
    is_own: bool


def has_claims(spec: records.PodSpec) -> bool:
    """Whether a pod of this `spec` uses any claim."""
    return bool(spec.resource_claims) or any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in spec.volumes
    )


def volume_claims(pod: records.Pod) -> tuple[VolumeClaim, ...]:
    """The claims of a pod's volumes, each once, in the order in which the pod names them."""
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
    """The ResourceClaims of a pod by the name that the pod gives them: namespace/name; None for one that is still to be made.

    A claim of a template that turned out to need none is left out.
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
    """The ResourceClaims of a pod, by namespace/name, that are among `claims` of its group: both call and make them alike."""
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
    """How many devices of each class a claim asks for by number: quotas count these.

    Requests for all devices, and those with alternatives, have no number beforehand and are left out.
    """
    counts: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        wish = request.exactly
        if wish is not None and wish.device_class_name and wish.allocation_mode != "All":
            counts[wish.device_class_name] = counts.get(wish.device_class_name, 0) + (wish.count or 1)
    return counts
