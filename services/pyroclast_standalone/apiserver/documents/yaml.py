"""YAML bodies, read as the API reads them: `y`, `on` and the like are booleans, keys become texts, the first document counts."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Hashable, Iterator
from typing import Any, Final

import yaml as pyyaml

from pyroclast.resources.go_text import go_quote, go_value

from .errors import Undecodable
from .values import Json

__all__ = ["parse_yaml"]

_PREFIX: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"  # of a scalar whose text says what it is
_MERGE: Final = f"{_PREFIX}merge"
_STR: Final = f"{_PREFIX}str"
_WORDS: Final[dict[str, tuple[str, Json]]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), ("bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), ("bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INT: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FEW_NODES, _MANY_NODES = 400_000, 4_000_000


def _integer(text: str) -> int | None:
    """A whole number of 64 bits."""
    found = _INT.fullmatch(text)
    if found is None:
        return None
    sign, *digits = found.groups()
    value = next(int(each, base) for each, base in zip(digits, (16, 2, 8, 10), strict=True) if each is not None)
    if sign == "-":
        value = -value
    return value if -(1 << 63) <= value < (1 << 63 if sign else 1 << 64) else None


def _resolved(text: str) -> tuple[str, Json]:
    """The type and value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return "str", text
    plain = text if text[0] == "." else text.replace("_", "")
    if (whole := _integer(plain)) is not None:
        return "int", whole
    if _FLOAT.fullmatch(plain) and math.isfinite(number := float(plain)):
        return "float", number
    return "str", text


class _Loader(pyyaml.SafeLoader):
    """Loads plain data; remembers keys that stand twice."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def resolve(self, kind: type, value: str, implicit: Any) -> str:  # noqa: ANN401  # as the base class has it
        """What a node without a tag is."""
        if kind is not pyyaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if not implicit[0]:
            return _STR
        return _MERGE if value == "<<" else _PLAIN

    def scan_to_next_token(self) -> None:
        """Skips tabs too where nothing can be indented by them."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def compose_scalar_node(self, anchor: dict[Any, pyyaml.Node]) -> pyyaml.ScalarNode:
        """A scalar; the tag `!` makes it a text."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.tag == "!":
            event.tag = _STR
        return super().compose_scalar_node(anchor)

    def construct_mapping(self, node: pyyaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; the last of two equal keys counts."""
        result: dict[Hashable, Any] = {}
        self._fill(result, set(), node, deep=deep)
        return result

    def _fill(self, result: dict[Hashable, Any], seen: set[Hashable], node: pyyaml.MappingNode, *, deep: bool) -> None:
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for each in _merged(value_node):
                    self._fill(result, seen, each, deep=deep)
                continue
            given = self.construct_object(key_node, deep=True)
            value = self.construct_object(value_node, deep=deep)
            key = _key(given, value)
            if (type(given), given) in seen:
                shown = go_quote(key) if isinstance(given, str) else key
                self.duplicates.append(f"line {key_node.start_mark.line + 1}: key {shown} already set in map")
            seen.add((type(given), given))
            result[key] = value


def _merged(node: pyyaml.Node) -> Iterator[pyyaml.MappingNode]:
    """The mappings that a `<<` names; the first of a list counts most, and so comes last."""
    found = node.value[::-1] if isinstance(node, pyyaml.SequenceNode) else [node]
    for each in found:
        if not isinstance(each, pyyaml.MappingNode):
            raise Undecodable("yaml: map merge requires map or sequence of maps as the value")
        yield each


def _key(given: Hashable, value: Json) -> str:
    """A key as JSON has it: a text."""
    if isinstance(given, str):
        return given
    if given is None:
        shown = go_quote(value) if isinstance(value, str) else go_value(value)
        raise Undecodable(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}")
    if isinstance(given, float) and not math.isfinite(given):
        return ".nan" if math.isnan(given) else ".inf" if given > 0 else "-.inf"
    if isinstance(given, bool | int | float):
        return go_value(given)
    raise Undecodable(f"yaml: invalid map key: {go_value(list(given) if isinstance(given, tuple) else given)}")


def _plain(loader: _Loader, node: pyyaml.ScalarNode) -> Json:
    return _resolved(str(loader.construct_scalar(node)))[1]


def _tagged(loader: _Loader, node: pyyaml.ScalarNode | pyyaml.MappingNode | pyyaml.SequenceNode) -> Json:
    """A node with a tag of its own."""
    if isinstance(node, pyyaml.MappingNode):
        return dict(loader.construct_mapping(node, deep=True))
    if isinstance(node, pyyaml.SequenceNode):
        return list(loader.construct_sequence(node, deep=True))
    text, wanted = str(loader.construct_scalar(node)), node.tag.removeprefix(_PREFIX)
    if wanted not in {"bool", "int", "float", "null"}:
        return text
    kind, value = _resolved(text)
    if (wanted, kind) == ("float", "int"):
        return float(value)
    if wanted != kind:
        raise Undecodable(f"yaml: cannot decode !!{kind} `{text}` as a !!{wanted}")
    return value


def _binary(loader: _Loader, node: pyyaml.ScalarNode) -> str:
    try:
        return base64.b64decode(str(loader.construct_scalar(node)).replace("\n", ""), validate=True).decode(errors="replace")
    except ValueError:
        raise Undecodable("yaml: !!binary value contains invalid base64 data") from None


_Loader.yaml_constructors = {
    tag: make for tag, make in pyyaml.SafeLoader.yaml_constructors.items() if tag in {f"{_PREFIX}seq", f"{_PREFIX}map", _STR}
}
_Loader.add_constructor(_PLAIN, _plain)
_Loader.add_constructor(_MERGE, lambda _loader, _node: "<<")
_Loader.add_constructor(f"{_PREFIX}binary", _binary)
_Loader.add_constructor(None, _tagged)


class _Converter:
    """Makes a tree that JSON can hold of what was loaded, each use of an anchor a copy of its own."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._nodes = 0
        self._aliased = 0

    def convert(self, value: Json, *, is_alias: bool = False) -> Json:
        self._nodes += 1
        self._aliased += is_alias
        if isinstance(value, float):
            return _number(value)
        if not isinstance(value, dict | list):
            return value
        is_alias = is_alias or id(value) in self._seen
        self._seen.add(id(value))
        if self._nodes > 100 and self._aliased > 1000 and self._aliased > self._nodes * self._allowed():
            raise Undecodable("yaml: document contains excessive aliasing")
        if isinstance(value, dict):
            return {name: self.convert(child, is_alias=is_alias) for name, child in value.items()}
        return [self.convert(child, is_alias=is_alias) for child in value]

    def _allowed(self) -> float:
        """The share of nodes that may come from anchors: the smaller, the larger the document."""
        over = min(max(self._nodes - _FEW_NODES, 0) / (_MANY_NODES - _FEW_NODES), 1)
        return 0.99 - 0.89 * over


def _number(value: float) -> float | int:
    if not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise Undecodable(f"json: unsupported value: {shown}")
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else value


def parse_yaml(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """The value of `body` as JSON would have it, and a sentence for each key that is given twice.

    Raises:
        Undecodable: no YAML.
    """
    try:
        loader = _Loader(body)
    except (pyyaml.YAMLError, UnicodeDecodeError) as error:
        raise Undecodable(f"yaml: {_why(error, body)}") from None
    try:
        value = _Converter().convert(loader.get_data() if loader.check_data() else None)  # type: ignore[no-untyped-call]
    except pyyaml.YAMLError as error:
        raise Undecodable(f"yaml: {_why(error, body)}") from None
    except RecursionError:
        raise Undecodable("yaml: exceeded max depth of 10000") from None
    finally:
        loader.dispose()
    return value, list(loader.duplicates) if duplicates else []


_PROBLEMS: Final = tuple(
    (context, re.compile(problem), words)
    for context, problem, words in (
        ("while parsing a block collection", "expected <block end>.*", "did not find expected '-' indicator"),
        ("", "expected <block end>.*", "did not find expected key"),
        ("", "expected the node content.*", "did not find expected node content"),
        ("", "expected ',' or '(.)', but got .*", r"did not find expected ',' or '\1'"),
        ("", "(mapping keys|mapping values) are not allowed here", r"\1 are not allowed in this context"),
        ("", "sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
        ("", "found character '.*' that cannot start any token", "found character that cannot start any token"),
        ("", "found undefined alias '(.*)'", r"unknown anchor '\1' referenced"),
        ("", "found unknown escape character .*", "found unknown escape character"),
        ("", "found unexpected document separator", "found unexpected document indicator"),
        ("", "found undefined tag handle .*", "found undefined tag handle"),
        ("", "expected escape sequence of .*", "did not find expected hexdecimal number"),
        ("", "expected URI escape sequence .*", "did not find URI escaped octet"),
        ("", "expected URI, .*", "did not find expected tag URI"),
        ("while scanning a directive", "expected alphabetic .*", "could not find expected directive name"),
        ("", "expected alphabetic .*", "did not find expected alphabetic or numeric character"),
        ("while scanning a tag", "expected ' '.*", "did not find expected whitespace or line break"),
        ("", "expected (chomping|a comment).*", "did not find expected comment or line break"),
        ("", "expected indentation indicator .*", "found an indentation indicator equal to 0"),
        ("", "expected '<document start>'.*", "did not find expected <document start>"),
    )
)


def _why(error: Exception, body: bytes) -> str:
    """The mistake in the words of the API's reader, which counts lines from zero and leaves the first one out."""
    found = str(getattr(error, "problem", None) or error)
    context = str(getattr(error, "context", "") or "")
    problem = next(
        (
            pattern.sub(words, found)
            for where, pattern, words in _PROBLEMS
            if context.startswith(where) and pattern.fullmatch(found)
        ),
        found,
    )
    if problem.startswith("unknown anchor"):
        return problem
    is_scanned = isinstance(error, pyyaml.scanner.ScannerError)
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark is not None else 0
    if mark is not None and mark.column and (not is_scanned or problem.startswith("could not find")):
        line += mark.index >= len(body.decode(errors="replace"))  # the end of the stream begins a line
    if line and is_scanned:
        line += 1
    if not line and (start := getattr(error, "context_mark", None)) is not None:
        line = start.line
    return f"line {line}: {problem}" if line else problem
