"""Rules of Job: defaults, creation and changes."""

from __future__ import annotations

from pyroclast.rules.jobs.create import check_spec, check_template_spec, validate_create
from pyroclast.rules.jobs.defaults import default, default_update
from pyroclast.rules.jobs.update import validate_update

__all__ = ["check_spec", "check_template_spec", "default", "default_update", "validate_create", "validate_update"]
