"""The admission configuration file: read at start, and again when it changes."""

from __future__ import annotations

from pyroclast.rules.resourcegroups import ConfigurationError, ResourceGroup, read_groups

__all__ = ["parse_configuration"]


def parse_configuration(content: bytes) -> tuple[ResourceGroup, ...]:
    """The resource groups in the file.

    Raises:
        ConfigurationError: It is no YAML, or no admission configuration.
    """
    import yaml  # noqa: PLC0415 - few have such a file

    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from None
    return read_groups(document)
