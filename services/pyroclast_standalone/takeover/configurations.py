"""What we make of Volcano's configuration files: why one cannot be used, and what is passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from pyroclast.lifecycle.hypernodes import configuration as discovery
from pyroclast.rules.resourcegroups import ConfigurationError, read_groups

__all__ = ["ADMISSION_FILE", "CONTROLLER_FILE", "SCHEDULER_FILE", "VALUES", "ConfigurationAnswer", "check_configuration"]

SCHEDULER_FILE: Final = "volcano-scheduler.conf"
ADMISSION_FILE: Final = "volcano-admission.conf"
CONTROLLER_FILE: Final = discovery.KEY
VALUES: Final = {
    SCHEDULER_FILE: "custom.scheduler_config_override",
    ADMISSION_FILE: "custom.admission_config_override",
    CONTROLLER_FILE: "custom.controller_config_override",
}
"""The value of our chart that takes a file of Volcano's."""

_KNOWN: Final[Mapping[str, Any]] = {
    ADMISSION_FILE: {"resourceGroups": {"resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity"}},
    CONTROLLER_FILE: {"networkTopologyDiscovery": {"source", "enabled", "interval", "credentials", "config"}},
}
"""The keys of a file, and those of the entries of its list."""


@dataclass(frozen=True, slots=True)
class ConfigurationAnswer:
    """What becomes of a configuration: why it cannot be used, or what is passed over."""

    error: str
    warnings: tuple[str, ...]


def check_configuration(file: str, text: str) -> ConfigurationAnswer:
    """What admission or the controllers make of `text`, which is the content of `file`."""
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
