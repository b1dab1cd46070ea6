"""Profiles of scenarios: actions and tiers with only the listed callbacks switched on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pyroclast_scheduler.session.configuration import Configuration, PluginEntry

FLAGS = {
    "jobOrder": "enableJobOrder",
    "jobReady": "enableJobReady",
    "jobPipelined": "enableJobPipelined",
    "jobStarving": "enableJobStarving",
    "taskOrder": "enableTaskOrder",
    "queueOrder": "enableQueueOrder",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "preemptive": "enablePreemptive",
    "predicate": "enablePredicate",
    "nodeOrder": "enableNodeOrder",
    "bestNode": "enableBestNode",
    "jobEnqueued": "enableJobEnqueued",
    "allocatable": "enabledAllocatable",
    "overused": "enabledOverused",
    "victim": "enabledVictim",
    "hierarchy": "enableHierarchy",
    "targetJob": "enableTargetJob",
    "reservedNodes": "enableReservedNodes",
    "hyperNodeOrder": "enabledHyperNodeOrder",
    "hyperNodeGradient": "enabledHyperNodeGradient",
    "subJobReady": "enabledSubJobReady",
    "subJobPipelined": "enabledSubJobPipelined",
    "subJobOrder": "enabledSubJobOrder",
}

SUB_SCORES = (
    "leastrequested",
    "mostrequested",
    "balancedresource",
    "nodeaffinity",
    "podaffinity",
    "tainttoleration",
    "imagelocality",
    "podtopologyspread",
)

PROFILES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((Path(__file__).parent / "profiles.yaml").read_text())


def profile_of(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """The profile of a case: by name, written out, or given in pieces."""
    profile = case.get("profile") or _usual(case)
    base = dict(PROFILES[profile]) if isinstance(profile, str) else dict(profile)
    base.update({key: case[key] for key in ("actions", "tiers", "actionArgs") if key in case})
    base.setdefault("actions", ["enqueue"])
    return base


def _usual(case: Mapping[str, Any]) -> str | dict[str, Any]:
    """The profile of a case that names none: the one in its title, or that of its chapter."""
    if found := re.search(r"\(profile (\w+)\)", case.get("title", "")):
        return found[1]
    return "HDRF" if "jobs" in case else "TOPO" if "hypernodes" in case else {}


def configuration(profile: Mapping[str, Any], case: Mapping[str, Any]) -> Configuration:
    """The configuration that a profile stands for in `case`.

    `use` keeps only these plugins; `arguments`: more of them, by plugin; `weights` are arguments of nodeorder; `L` is the level
    of capacity; `prio` adds priority.
    """
    use, weights = case.get("use"), case.get("weights") or {}
    tiers = tuple(
        tuple(entry for listing in tier for entry in _entries(listing, weights, case) if use is None or entry.name in use)
        for tier in profile.get("tiers", [])
    )
    if case.get("prio"):
        tiers = ((*tiers[0], *_entries({"priority": ["jobOrder", "taskOrder"]}, {}, case)), *tiers[1:])
    return Configuration(tuple(profile["actions"]), tiers, profile.get("actionArgs", {}))


def _entries(listing: Mapping[str, Any], weights: Mapping[str, Any], case: Mapping[str, Any]) -> list[PluginEntry]:
    found = []
    for head, flags in listing.items():
        name, _, text = head.partition("(")
        arguments: dict[str, Any] = {}
        for pair in filter(None, text.rstrip(")").split(",")):
            key, _, value = pair.strip().partition("=")
            arguments[key] = yaml.safe_load(value)
        arguments |= (case.get("arguments") or {}).get(name, {})
        if name == "nodeorder" and weights:
            arguments |= {f"{each}.weight": 0 for each in SUB_SCORES} | dict(weights)
        if name == "capacity" and "L" in case:
            arguments["ancestorReclaimLevel"] = case["L"]
        found.append(PluginEntry(name, frozenset(FLAGS[flag] for flag in flags), arguments))
    return found
