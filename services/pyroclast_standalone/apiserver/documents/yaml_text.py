"""Writing YAML as the API does: texts that would be read as something else stand in double quotes, lines as lines."""

from __future__ import annotations

import io
from typing import Final

import yaml

from .values import Object

__all__ = ["dump_yaml"]

_OLD_BOOLEANS: Final = {"y", "Y", "n", "N"}
_TEXT: Final = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """Knows no anchors: an object that stands in two places is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature of the library
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar(_TEXT, text, style="|")
    read_as = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    is_plain = read_as == _TEXT and text not in _OLD_BOOLEANS
    return dumper.represent_scalar(_TEXT, text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent)


def dump_yaml(document: Object) -> bytes:
    """`document` as YAML, its keys sorted."""
    stream = io.StringIO()
    yaml.dump(document, stream, Dumper=_Dumper, sort_keys=True, allow_unicode=True)
    return stream.getvalue().encode()
