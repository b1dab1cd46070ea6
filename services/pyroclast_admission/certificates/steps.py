"""Carries out a step that `plan` has chosen: returns the new certificates and keys."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from pyroclast_admission.certificates import issue
from pyroclast_admission.certificates.issue import Material
from pyroclast_admission.certificates.plan import Policy, Step

MAX_AUTHORITIES = 3
"""Most authorities in a bundle: the new one, the one that signed the serving certificate, and one more for a rotation that begins
before another has ended.
"""


def carry_out(step: Step, material: Material | None, policy: Policy, now: datetime) -> Material:
    """Return the certificates and keys after `step`."""
    match step:
        case Step.START_OVER:
            return _start_over(policy, now)
        case Step.KEEP | Step.ADD_AUTHORITY | Step.ISSUE | Step.DROP_AUTHORITIES if material is None:
            raise ValueError(f"nothing is there to {step.value}")
        case Step.KEEP:
            return material
        case Step.ADD_AUTHORITY:
            authority, key = issue.new_authority(now, policy.authority_validity)
            return Material((authority, *material.authorities)[:MAX_AUTHORITIES], key, material.certificate, material.key)
        case Step.ISSUE:
            return _with_serving(material.authorities, material.authority_key, policy, now)
        case Step.DROP_AUTHORITIES:
            return Material(material.authorities[:1], material.authority_key, material.certificate, material.key)
        case _:
            assert_never(step)


def _start_over(policy: Policy, now: datetime) -> Material:
    authority, key = issue.new_authority(now, policy.authority_validity)
    return _with_serving((authority,), key, policy, now)


def _with_serving(authorities: tuple[bytes, ...], authority_key: bytes, policy: Policy, now: datetime) -> Material:
    certificate, key = issue.new_serving(authorities[0], authority_key, sorted(policy.names), now, policy.validity)
    return Material(authorities, authority_key, certificate, key)
