"""Admission policies: the rules that CEL can express, as data, for clusters without webhooks.

The manifests of the chart are made from this data, and so is the page of covered rules.
"""

from __future__ import annotations

from pyroclast.rules.policies.manifests import mutating_manifests, validating_manifests
from pyroclast.rules.policies.mutating import MUTATING
from pyroclast.rules.policies.validating import VALIDATING

__all__ = ["MUTATING", "VALIDATING", "mutating_manifests", "validating_manifests"]
