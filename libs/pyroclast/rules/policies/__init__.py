"""Admission policies: the rules that CEL can express, as data, for the manifests of the chart and the page of covered rules."""

from __future__ import annotations

from pyroclast.rules.policies.manifests import MUTATING, VALIDATING, mutating_manifests, validating_manifests

__all__ = ["MUTATING", "VALIDATING", "mutating_manifests", "validating_manifests"]
