"""Resource groups of the admission configuration: which pods they select, and what they add to these pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from pyroclast.api.keys import RESOURCE_GROUP
from pyroclast.rules.values import Json, mapping, mappings, string_items, text


class ConfigurationError(ValueError):
    """The document is not an admission configuration; the text names the faulty key."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One entry of `resourceGroups`. `selected_by`: `namespace`, `annotation` or empty."""

    name: str
    selected_by: str = ""
    namespaces: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] | None = None

    def selects(self, pod: Mapping[str, Any], namespace: str) -> bool:
        """Whether a pod of that namespace belongs to the group."""
        if self.selected_by == "namespace":
            return namespace in self.namespaces
        if self.selected_by not in ("", "annotation"):
            return False
        given = mapping(mapping(pod.get("metadata")).get("annotations"))
        if any(text(given.get(key)) == value for key, value in self.annotations.items()):
            return True
        return not self.selected_by and text(given.get(RESOURCE_GROUP)) == self.name


def read_groups(document: Json) -> tuple[ResourceGroup, ...]:
    """Return the groups of a parsed configuration; unknown keys are ignored. ConfigurationError: a part has the wrong shape."""
    if document is None:
        return ()
    if not isinstance(document, dict):
        raise ConfigurationError("the file must be a mapping with the key resourceGroups")
    groups = document.get("resourceGroups") or []
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ConfigurationError("resourceGroups must be a list of mappings")
    return tuple(_read_group(group, f"resourceGroups[{index}]") for index, group in mappings(groups))


def _read_group(group: Mapping[str, Any], path: str) -> ResourceGroup:
    selector = mapping(group.get("object"))
    selected_by = text(selector.get("key"))
    values = string_items(selector.get("value"))
    labels = group.get("labels") or {}
    if not isinstance(labels, dict):
        raise ConfigurationError(f"{path}.labels must be a mapping")
    return ResourceGroup(
        name=text(group.get("resourceGroup")),
        selected_by=selected_by,
        namespaces=tuple(values) if selected_by == "namespace" else (),
        annotations={} if selected_by == "namespace" else _read_annotations(values),
        scheduler_name=text(group.get("schedulerName")),
        node_selector={str(key): str(value) for key, value in labels.items()},
        tolerations=tuple(_read_toleration(toleration) for _, toleration in mappings(group.get("tolerations"))),
        affinity=_read_affinity(text(group.get("affinity")), path),
    )


def _read_annotations(values: list[str]) -> dict[str, str]:
    """Return the pairs written as `key: value`. Other lines select nothing, and the first pair of a key is used."""
    pairs: dict[str, str] = {}
    for line in (line for value in values for line in value.splitlines()):
        key, separator, value = line.partition(":")
        if separator and key.strip():
            pairs.setdefault(_unquoted(key), _unquoted(value))
    return pairs


def _unquoted(word: str) -> str:
    word = word.strip()
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _read_toleration(toleration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the toleration with Kubernetes' keys; Volcano's lower-case keys are accepted too."""
    names = {"key": "key", "operator": "operator", "value": "value", "effect": "effect", "tolerationseconds": "tolerationSeconds"}
    return {names[key.lower()]: value for key, value in toleration.items() if key.lower() in names and value is not None}


def _read_affinity(document: str, path: str) -> Mapping[str, Any] | None:
    if not document:
        return None
    try:
        affinity = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{path}.affinity is not JSON: {error}") from None
    if not isinstance(affinity, dict):
        raise ConfigurationError(f"{path}.affinity must be a JSON object")
    return affinity
