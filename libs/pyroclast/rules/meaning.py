"""Whether two JSON values have the same meaning: absent equals empty, and quantities and durations are compared by value."""

from __future__ import annotations

from typing import Any

from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast.rules.values import Json, amount

_QUANTITY_LISTS = frozenset({"requests", "limits", "overhead", "capacity", "capability", "deserved", "resource"})
_QUANTITIES = frozenset({"sizeLimit", "divisor"})
_DURATIONS = frozenset({"backoff", "maxBackoff", "maxRunTime", "resetAfter", "runningEstimate", "timeout"})
_NAMED = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "options", "volumeAttributes"})
"""Maps whose keys are not fields: in these maps, an empty text differs from an absent key."""
_TELLING = frozenset(
    """activeDeadlineSeconds allowPrivilegeEscalation automountServiceAccountToken cachingMode defaultMode enableServiceLinks
    exitCode expirationSeconds fsGroup fsGroupChangePolicy fsType gmsaCredentialSpec gmsaCredentialSpecName
    highestTierAllowed hostProcess hostUsers hostnameOverride initiatorName kind localhostProfile lun
    maxExpirationSeconds minDomains minSuccess mode mountPropagation nodeAffinityPolicy nodeTaintsPolicy optional
    preemptionPolicy priority privileged procMount readOnlyRootFilesystem recursiveReadOnly resourceClaimName
    resourceClaimTemplateName restartPolicy runAsGroup runAsNonRoot runAsUser runAsUserName runningEstimate
    runtimeClassName seLinuxChangePolicy service setHostnameAsFQDN shareProcessNamespace signerName stopSignal
    storageClassName supplementalGroupsPolicy terminationGracePeriodSeconds timeout tolerationSeconds
    ttlSecondsAfterFinished type volumeAttributesClassName volumeMode""".split()  # noqa: SIM905
)
"""Fields of a Job in which an empty value differs from an absent one. Typed clients omit empty values of all other fields."""
_CONTAINERS = (dict, list)
_ABSENT: tuple[Any, ...] = (None, {}, [])


def same_meaning(one: Json, other: Json, *, of_job: bool = False) -> bool:
    """Whether both values have the same meaning. `of_job`: both are parts of a Job, of which clients omit empty fields.

    Uses its own stack, because a value may be nested deeper than the recursion limit.
    """
    pending = [(one, other, "")]
    while pending:
        left, right, key = pending.pop()
        if left is right:
            continue
        if type(left) is dict and type(right) is dict:
            inside = "quantity" if key in _QUANTITY_LISTS else "named" if key in _NAMED else ""
            pending += [(left.get(name), right.get(name), inside or name) for name in left.keys() | right.keys()]
        elif type(left) is list and type(right) is list:
            if len(left) != len(right):
                return False
            pending += [(a, b, "") for a, b in zip(left, right, strict=True)]
        elif type(left) in _CONTAINERS or type(right) in _CONTAINERS:
            if not (_is_absent(left) and _is_absent(right)):
                return False
        elif not _same_leaf(left, right, key) and not (of_job and _is_nothing(left, key) and _is_nothing(right, key)):
            return False
    return True


def _is_absent(value: Json) -> bool:
    return value in _ABSENT


def _is_nothing(value: Json, key: str) -> bool:
    return value is None or (not value and key != "named" and key not in _TELLING)


def _same_leaf(left: Json, right: Json, key: str) -> bool:
    if left == right and (type(left) is bool) == (type(right) is bool):
        return True
    if key == "quantity" or key in _QUANTITIES:
        one, other = amount(left), amount(right)
        return one is not None and one == other
    if key in _DURATIONS and isinstance(left, str) and isinstance(right, str):
        try:
            return nanoseconds(left) == nanoseconds(right)
        except DurationError:
            return False
    return False
