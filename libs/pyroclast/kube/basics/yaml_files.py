"""Reads YAML files that users write, with errors that name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class NotYaml(ValueError):
    """The file is not YAML; the message names the error and the line."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - a YAML value
    """Return the document in the file.

    Raises:
        OSError: the file cannot be read.
        NotYaml: the file is not one YAML document.
    """
    import yaml  # noqa: PLC0415 - a pod in a cluster reads no YAML file

    content = path.read_bytes()
    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise NotYaml(f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}{where}") from error
