"""All mutating policies."""

from __future__ import annotations

from typing import Final

from pyroclast.rules.policies.commands import COMMANDS_MARKED
from pyroclast.rules.policies.jobs import JOB_DEFAULTS
from pyroclast.rules.policies.model import MutatingPolicy
from pyroclast.rules.policies.others import OTHER_DEFAULTS

MUTATING: Final[tuple[MutatingPolicy, ...]] = (JOB_DEFAULTS, *OTHER_DEFAULTS, COMMANDS_MARKED)
