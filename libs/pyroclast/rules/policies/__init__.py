"""Admission policies: the rules that CEL can express, as data, for clusters without webhooks.

The manifests of the chart are made from this data, and so is the page of covered rules.
"""

from __future__ import annotations

from pyroclast.rules.policies.manifests import MUTATING, VALIDATING, mutating_manifests, validating_manifests

__all__ = ["MUTATING", "VALIDATING", "mutating_manifests", "validating_manifests"]
