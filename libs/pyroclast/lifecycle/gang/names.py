"""Generated names of claims and volumes.

The names look random, but depend only on the Job. After a crash the controller generates the same names again, so no object is
created twice.
"""

from __future__ import annotations

import hashlib
from typing import Final

from pyroclast.api.records import Job

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 12


def claim_name(job: Job, position: int) -> str:
    """Return the name of the claim generated for `spec.volumes[position]`: `<job>-pvc-` and twelve characters of 0-9a-z."""
    return f"{job.metadata.name}-pvc-{_suffix(job.metadata.uid, 'claim', str(position))}"


def volume_name(job: Job, pod: str, volume: str) -> str:
    """Return the name of the pod volume for a volume of the Job: `<job>-` and twelve characters of 0-9a-z."""
    return f"{job.metadata.name}-{_suffix(job.metadata.uid, pod, volume)}"


def _suffix(*parts: str) -> str:
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest(), "big")
    characters = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)
