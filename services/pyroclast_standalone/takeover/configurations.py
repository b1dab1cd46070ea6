"""Checks Volcano's configuration files: finds faults, and settings that Pyroclast ignores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from pyroclast.lifecycle.hypernodes import configuration as discovery
from pyroclast.rules.resourcegroups import ConfigurationError, read_groups

SCHEDULER_FILE: Final = "volcano-scheduler.conf"
ADMISSION_FILE: Final = "volcano-admission.conf"
CONTROLLER_FILE: Final = discovery.KEY
VALUES: Final = {
    SCHEDULER_FILE: "custom.scheduler_config_override",
    ADMISSION_FILE: "custom.admission_config_override",
    CONTROLLER_FILE: "custom.controller_config_override",
}
"""The value of Pyroclast's chart for each of Volcano's files."""

_KNOWN: Final[Mapping[str, Any]] = {
    ADMISSION_FILE: {"resourceGroups": {"resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity"}},
    CONTROLLER_FILE: {"networkTopologyDiscovery": {"source", "enabled", "interval", "credentials", "config"}},
}
"""The known keys of each file, and of the entries of its list."""


@dataclass(frozen=True, slots=True)
class ConfigurationAnswer:
    """The result for a configuration: the fault that makes it unusable, or warnings about ignored settings."""

    error: str
    warnings: tuple[str, ...]


def check_configuration(file: str, text: str) -> ConfigurationAnswer:
    """Check `text`, the content of `file`, as admission or the controllers would."""
    try:
        document = yaml.safe_load(text)
        if file == ADMISSION_FILE:
            read_groups(document)
        else:
            discovery.read_sources({file: text})
    except yaml.YAMLError as error:
        return ConfigurationAnswer(f"it is not YAML: {error}", ())
    except (ConfigurationError, discovery.ConfigurationError) as error:
        return ConfigurationAnswer(str(error), ())
    return ConfigurationAnswer("", tuple(_unknown(document or {}, _KNOWN[file])))


def _unknown(document: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    found = [f"{key}: unknown key, without effect" for key in document if key not in known]
    for key, inner in known.items():
        for index, entry in enumerate(document.get(key) or []):
            found += [f"{key}[{index}].{name}: unknown key, without effect" for name in entry if name not in inner]
    return found
