"""YAML 1.1 bodies, read as the API reads them: `y`, `on` and the like are booleans, keys become texts."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any, Final

import yaml as pyyaml

from .errors import MalformedYaml
from .go_text import go_value
from .values import Json

__all__ = ["parse_yaml"]

_BOOL: Final = "tag:yaml.org,2002:bool"
_STR: Final = "tag:yaml.org,2002:str"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_TRUE: Final = {"y", "yes", "on", "true"}


class _Loader(pyyaml.SafeLoader):
    """Loads plain data; remembers keys that stand twice."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: pyyaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; the last of two equal keys counts."""
        self.flatten_mapping(node)
        seen: set[str] = set()
        result: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = _key(self.construct_object(key_node, deep=True))
            if key in seen:
                shown = f'"{key}"' if key_node.tag == _STR else key
                self.duplicates.append(f"line {key_node.start_mark.line + 1}: key {shown} already set in map")
            seen.add(key)
            result[key] = self.construct_object(value_node, deep=deep)
        return result


def _bool(loader: _Loader, node: pyyaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() in _TRUE


def _float(loader: _Loader, node: pyyaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    if text.lstrip("+-").startswith("."):
        sign = -1.0 if text.startswith("-") else 1.0
        if text.endswith("inf"):
            return sign * math.inf
        if text.endswith("nan"):
            return math.nan
    return float(text)


def _int(loader: _Loader, node: pyyaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits.isdigit() and digits.startswith("0"):
        digits = f"0o{digits[1:]}"
    return -int(digits, 0) if text.startswith("-") else int(digits, 0)


def _text(loader: _Loader, node: pyyaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in {_BOOL, _INT, _FLOAT}]
    for first, resolvers in pyyaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOL,
    re.compile(r"^(?:y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE)$"),
    list("yYnNtTfFoO"),
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"""^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+
        |[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)
        |[-+]?\.(?:inf|Inf|INF)
        |\.(?:nan|NaN|NAN))$""",
        re.VERBOSE,
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(
    _INT, re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0[0-7_]*|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_constructor(_INT, _int)
_Loader.add_constructor(_BOOL, _bool)
_Loader.add_constructor(_FLOAT, _float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def _key(value: Hashable) -> str:
    """A key as JSON has it: a text."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return go_value(value)
    raise MalformedYaml("yaml: invalid map key")


def _json(value: Json) -> Json:
    """`value` as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedYaml(f"json: unsupported value: {value}")
    if isinstance(value, dict):
        return {name: _json(child) for name, child in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json(child) for child in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def parse_yaml(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """The value of `body` as JSON would have it, and a sentence for each key that is given twice.

    Raises:
        MalformedYaml: no YAML.
    """
    try:
        loader = _Loader(body)
    except (pyyaml.YAMLError, UnicodeDecodeError) as error:
        raise MalformedYaml(f"yaml: {_why(error)}") from None
    try:
        value = loader.get_single_data()
    except (pyyaml.YAMLError, ValueError, RecursionError) as error:
        raise MalformedYaml(f"yaml: {_why(error)}") from None
    finally:
        loader.dispose()
    return _json(value), list(loader.duplicates) if duplicates else []


_WORDS: Final = (
    (re.compile(r"expected <block end>, but found .*"), "did not find expected key"),
    (re.compile(r"expected the node content, but found .*"), "did not find expected node content"),
    (re.compile(r"expected ',' or '(.)', but got .*"), r"did not find expected ',' or '\1'"),
    (re.compile(r"mapping values are not allowed here"), "mapping values are not allowed in this context"),
    (re.compile(r"found character '.*' that cannot start any token"), "found character that cannot start any token"),
    (re.compile(r"found undefined alias '(.*)'"), r"unknown anchor '\1' referenced"),
)


def _why(error: Exception) -> str:
    """The mistake in the words of the API's reader, which counts lines from zero and leaves the first one out."""
    found = str(getattr(error, "problem", None) or error)
    in_sequence = "block collection" in str(getattr(error, "context", "") or "")
    problem = found
    for pattern, words in _WORDS:
        if pattern.fullmatch(found):
            problem = "did not find expected '-' indicator" if in_sequence and "key" in words else pattern.sub(words, found)
            break
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark is not None else 0
    if found.endswith("'<stream end>'") or (isinstance(error, pyyaml.scanner.ScannerError) and line):
        line += 1
    return f"line {line}: {problem}" if line else problem
