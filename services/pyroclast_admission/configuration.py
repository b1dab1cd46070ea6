"""The admission configuration file, which is read at the start and after each change."""

from __future__ import annotations

from pyroclast.rules.resourcegroups import ConfigurationError, ResourceGroup, read_groups


def parse_configuration(content: bytes) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of the file.

    Raises:
        ConfigurationError: the content is not YAML, or not an admission configuration.
    """
    import yaml  # noqa: PLC0415 - most installations have no such file

    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from None
    return read_groups(document)
