"""Admission policies: the rules that CEL can express, as data, for clusters that want no webhook.

From this data come the manifests of the chart and the page that tells which rules are covered and which are not.
"""

from __future__ import annotations

from pyroclast.rules.policies.manifests import mutating_manifests, validating_manifests
from pyroclast.rules.policies.mutating import MUTATING
from pyroclast.rules.policies.validating import VALIDATING

__all__ = ["MUTATING", "VALIDATING", "mutating_manifests", "validating_manifests"]
