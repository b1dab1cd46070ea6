"""Which ColocationConfiguration is for a pod, and how the pod is told of it: by two annotations, which node agents read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast.api import keys
from pyroclast.api.records import ColocationConfiguration, PodMeta
from pyroclast.resources import selectors

__all__ = ["configuration_for", "patch", "selects", "written"]


def selects(configuration: ColocationConfiguration, labels: Mapping[str, str]) -> bool:
    """Whether it is for pods with these labels; one without a selector, or with one that makes no sense, is for none."""
    selector = configuration.spec.selector
    return selector is not None and selectors.is_valid(selector) and selectors.matches(selector, labels)


def configuration_for(
    configurations: Iterable[ColocationConfiguration], labels: Mapping[str, str]
) -> ColocationConfiguration | None:
    """The newest that selects the labels; among those of one second the first by name."""
    fitting = [each for each in configurations if selects(each, labels)]
    first_by_name = sorted(fitting, key=lambda each: each.metadata.name)
    return max(first_by_name, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def written(configuration: ColocationConfiguration) -> dict[str, Any]:
    """The settings as the annotation has them: numbers that are zero are left out."""
    qos = configuration.spec.memory_qos
    if qos is None:
        return {}
    ratios = {"highRatio": qos.high_ratio, "lowRatio": qos.low_ratio, "minRatio": qos.min_ratio}
    return {"memoryQos": {name: ratio for name, ratio in ratios.items() if ratio}}


def patch(pod: PodMeta, configuration: ColocationConfiguration | None) -> dict[str, Any]:
    """The merge patch that makes the pod's annotations tell of `configuration`; empty when they do.

    A pod that no configuration is for any more keeps empty settings, so that node agents take back what they did.
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
