"""All validating policies."""

from __future__ import annotations

from typing import Final

from pyroclast.rules.policies.jobs import JOB_POLICY
from pyroclast.rules.policies.model import ValidatingPolicy
from pyroclast.rules.policies.others import OTHER_POLICIES

VALIDATING: Final[tuple[ValidatingPolicy, ...]] = (JOB_POLICY, *OTHER_POLICIES)
