"""Selects the ColocationConfiguration of a pod, and computes the pod's two annotations, which node agents read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast.api import keys
from pyroclast.api.records import ColocationConfiguration, PodMeta
from pyroclast.resources import selectors


def selects(configuration: ColocationConfiguration, labels: Mapping[str, str]) -> bool:
    """Return whether the configuration has a valid selector that matches these labels."""
    selector = configuration.spec.selector
    return selector is not None and selectors.is_valid(selector) and selectors.matches(selector, labels)


def configuration_for(
    configurations: Iterable[ColocationConfiguration], labels: Mapping[str, str]
) -> ColocationConfiguration | None:
    """Return the newest configuration that selects the labels. Of several from the same second, return the first by name.

    Return None when no configuration selects them.
    """
    fitting = [each for each in configurations if selects(each, labels)]
    first_by_name = sorted(fitting, key=lambda each: each.metadata.name)
    return max(first_by_name, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def written(configuration: ColocationConfiguration) -> dict[str, Any]:
    """Return the settings in the form of the annotation, without numbers that are zero."""
    qos = configuration.spec.memory_qos
    if qos is None:
        return {}
    ratios = {"highRatio": qos.high_ratio, "lowRatio": qos.low_ratio, "minRatio": qos.min_ratio}
    return {"memoryQos": {name: ratio for name, ratio in ratios.items() if ratio}}


def patch(pod: PodMeta, configuration: ColocationConfiguration | None) -> dict[str, Any]:
    """Return the merge patch that sets the pod's annotations for `configuration`. Empty when they are correct already.

    A pod that no configuration selects any more gets empty settings, so that node agents revert their changes.
    """
    there = pod.metadata.annotations
    name, text = there.get(keys.COLOCATION_CONFIG_NAME), there.get(keys.COLOCATION_CONFIG)
    if configuration is None:
        if name is None and text in (None, "{}"):
            return {}
        marks: dict[str, str | None] = {keys.COLOCATION_CONFIG_NAME: None, keys.COLOCATION_CONFIG: "{}"}
    else:
        wanted = written(configuration)
        if name == configuration.metadata.name and _read(text) == wanted:
            return {}
        marks = {
            keys.COLOCATION_CONFIG_NAME: configuration.metadata.name,
            keys.COLOCATION_CONFIG: json.dumps(wanted, separators=(",", ":")),
        }
    return {"metadata": {"uid": pod.metadata.uid, "annotations": marks}}


def _read(text: str | None) -> object:
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return None
