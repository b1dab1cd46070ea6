"""The subset of JSONPath in printer columns, selectable fields and scale paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Final, TypeAlias

from pyroclast_standalone.apiserver.documents.errors import Json
from pyroclast_standalone.apiserver.documents.selectors import shown

_Step: TypeAlias = Callable[[Json], Iterator[Json]]

_TOKEN: Final = re.compile(
    r"""
    \.(?P<name>(?:\\.|[^.\[\]\\{}()'"\s])+)
    | \[\?\((?P<filter>[^)]*)\)\]
    | \[(?P<any>\*)\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\]
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(r"\s*@(?P<path>[^=!<>\s]+)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_COMPARISONS: Final = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class BadPath(ValueError):
    """The text is not a path of the supported subset of JSONPath."""


def _named(name: str) -> _Step:
    def step(value: Json) -> Iterator[Json]:
        if name == "*":
            yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        elif isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _indexed(index: int) -> _Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _literal(text: str) -> Json:
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise BadPath(f"unrecognized value in a filter: {text}") from None


def _filtered(text: str) -> _Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise BadPath(f"unrecognized filter: {text}")
    read = compile_path(found["path"])
    if found["operator"] is None:
        return _where(lambda item: bool(read(item)))
    wanted = _literal(found["value"])
    compare = _COMPARISONS[found["operator"]]
    ordered = found["operator"] not in {"==", "!="}

    def keeps(item: Json) -> bool:
        values = read(item)
        return bool(values) and (not ordered or isinstance(values[0], type(wanted))) and bool(compare(values[0], wanted))

    return _where(keeps)


def _where(keeps: Callable[[Json], bool]) -> _Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list):
            yield from (item for item in value if keeps(item))

    return step


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _steps(path: str) -> list[_Step]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$").removeprefix("@")
    if text and text[0] not in ".[":
        text = f".{text}"
    if text == ".":
        return []
    steps: list[_Step] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise BadPath(f"unrecognized character in a path: {text[at:]}")
        at = token.end()
        match token.lastgroup:
            case "name":
                steps.append(_named(_unescaped(token["name"])))
            case "quoted":
                steps.append(_named(_unescaped(token["quoted"][1:-1])))
            case "index":
                steps.append(_indexed(int(token["index"])))
            case "filter":
                steps.append(_filtered(token["filter"]))
            case _:
                steps.append(_named("*"))
    return steps


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Json], list[Json]]:
    """Return a function that finds all values at `path` (`.status.conditions[?(@.type=="Ready")].status`).

    A missing key results in no values.

    Raises BadPath: the syntax is invalid.
    """
    steps = _steps(path)

    def find_all(value: Json) -> list[Json]:
        values = [value]
        for step in steps:
            values = [found for each in values for found in step(each)]
            if not values:
                break
        return values

    return find_all


def is_readable(path: str) -> bool:
    """Return whether `path` belongs to the supported subset of JSONPath."""
    try:
        compile_path(path)
    except BadPath:
        return False
    return True


def reader(path: str) -> Callable[[Mapping[str, Json]], str]:
    """Return a reader of a selectable field: the first value as text, empty when the path has no value."""
    find_all = compile_path(path)

    def read(document: Mapping[str, Json]) -> str:
        found = find_all(document)
        return shown(found[0]) if found and found[0] is not None else ""

    return read
