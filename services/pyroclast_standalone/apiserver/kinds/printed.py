"""Rows of built-in kinds, made from a table of data: which columns a kind has, and what stands in their cells.

An entry of `data/columns.yaml` defines a column: name, type, format, priority, and its description, or by `doc` the field whose
description it is. It also defines the cells, unless the rules of the kind make them:

* `at`: the JSONPath of what is shown, `as`: how: `value` (the first that is found), `text`, `flag`, `count`, `list`, `few`,
  `subjects`, `accounts`, `selector`, `since`, `seconds`, `span`, `modes`, `endpoints`, `owner`; `else`: what stands for nothing;
* or `text`: templates with paths in braces, of which the first counts whose paths all lead somewhere: `{.spec.replicas|0}` has a
  value to fall back on, `{.metadata.deletionTimestamp?}` shows nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

import yaml

from pyroclast_standalone.apiserver.documents.jsonpath import compile_path
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.times import human_duration, parse_time, since

from .rules import AGE, NAME, Cells, age_of, selector_text

__all__ = ["entries_of", "printed"]

_Cell: TypeAlias = Callable[[Mapping[str, Any], float], Any]

_FEW: Final = 3
_SHORT_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_SLOT: Final = re.compile(r"\{(?P<path>\.[^}|?]*(?:\?\([^)]*\)[^}|?]*)?)(?:(?P<hidden>\?)|\|(?P<otherwise>[^}]*))?\}")


def _few(found: list[Any]) -> str:
    more = f" + {len(found) - _FEW} more..." if len(found) > _FEW else ""
    return ",".join(map(str, found[:_FEW])) + more


def _span(found: list[Any], now: float) -> str:
    """How long it is, or was, from the first time to the second."""
    started, *ended = (parse_time(each) for each in found)
    return "" if started is None else human_duration((ended[0] if ended and ended[0] is not None else now) - started)


def _addresses(subsets: list[Any]) -> list[str]:
    return [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in subsets
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]


def _owner(owners: list[Any]) -> str:
    owner = next(iter(owners))
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"


_SHOWN: Final[Mapping[str, Callable[[list[Any], float], Any]]] = {
    "value": lambda found, _: found[0],
    "text": lambda found, _: str(found[0]),
    "flag": lambda found, _: str(bool(found[0])),
    "count": lambda found, _: sum(map(len, found)),
    "list": lambda found, _: ",".join(map(str, found)),
    "few": lambda found, _: _few(found),
    "subjects": lambda found, _: ", ".join(map(str, found)),
    "accounts": lambda found, _: ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found),
    "selector": lambda found, _: selector_text(found[0]),
    "since": lambda found, now: since(found[0], now),
    "seconds": lambda found, _: human_duration(found[0]),
    "span": _span,
    "modes": lambda found, _: ",".join(short for mode, short in _SHORT_MODES.items() if mode in found),
    "endpoints": lambda found, _: _few(_addresses(found)),
    "owner": lambda found, _: _owner(found),
}


def _template(text: str) -> _Cell:
    """A cell that is None where a path of the text leads nowhere."""
    slots = [(compile_path(slot["path"]), slot["hidden"], slot["otherwise"]) for slot in _SLOT.finditer(text)]
    pieces = _SLOT.sub("\0", text).split("\0")

    def read(document: Mapping[str, Any], _now: float) -> str | None:
        shown = [pieces[0]]
        for (find, is_hidden, otherwise), after in zip(slots, pieces[1:], strict=True):
            found = find(document)
            if not found and otherwise is None:
                return None
            shown += ["" if is_hidden else str(found[0]) if found else otherwise, after]
        return "".join(shown)

    return read


def _cell(entry: Mapping[str, Any]) -> _Cell:
    otherwise = entry.get("else", "")
    if "text" in entry:
        given = entry["text"]
        templates = [_template(text) for text in ([given] if isinstance(given, str) else given)]

        def first(document: Mapping[str, Any], now: float) -> Any:  # noqa: ANN401  # a cell: any JSON
            return next((text for each in templates if (text := each(document, now)) is not None), otherwise)

        return first
    paths = [entry["at"]] if isinstance(entry["at"], str) else entry["at"]
    finders, show = [compile_path(path) for path in paths], _SHOWN[entry.get("as", "value")]

    def read(document: Mapping[str, Any], now: float) -> Any:  # noqa: ANN401  # a cell: any JSON
        found = [value for find in finders for value in find(document) if value is not None]
        shown = show(found, now) if found else ""
        return otherwise if shown == "" else shown  # 0 and False are shown

    return read


def _column(entry: Mapping[str, Any]) -> Column:
    kept = {key: entry[key] for key in ("type", "format", "description", "priority", "doc") if key in entry}
    return Column(entry["name"], **kept)


@cache
def entries_of() -> Mapping[str, Sequence[Any]]:
    """The table of data: by kind, with its group before it, the entries of its columns."""
    text = resources.files(__package__).joinpath("data", "columns.yaml").read_text()
    table: Mapping[str, Sequence[Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return table


@cache
def printed(group: str, kind: str) -> tuple[Sequence[Column], Cells]:
    """Columns and cells of a kind: name and age where the table of data does not have it."""
    entries = entries_of().get(f"{group}/{kind}" if group else kind) or ["age"]
    columns = [AGE if entry == "age" else _column(entry) for entry in entries]
    if all(column.name != NAME.name for column in columns):
        columns.insert(0, NAME)
    readers = [age_of if entry == "age" else _cell(entry) for entry in entries if entry == "age" or {"at", "text"} & set(entry)]
    return columns, lambda document, now: [document["metadata"]["name"], *(read(document, now) for read in readers)]
