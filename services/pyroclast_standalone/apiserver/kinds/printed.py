"""Table rows of built-in kinds, from a data table with the columns of each kind and the content of their cells.

An entry of `data/columns.yaml` defines a column: name, type, format, priority and description. `doc` names a field whose
description is used instead. The entry also defines the cells, unless the rules of the kind do:

* `at` is the JSONPath of the value. `as` is its format: `value` (the first value), `text`, `flag`, `count`, `list`, `few`,
  `subjects`, `accounts`, `selector`, `since`, `seconds`, `span`, `modes`, `endpoints`, `owner`. `else` replaces a missing value.
* `text` is a list of templates with paths in braces. The first template whose paths all exist is used. `{.spec.replicas|0}` has
  a default value. `{.metadata.deletionTimestamp?}` must exist, but is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

import yaml

from pyroclast.views.readable import human_duration
from pyroclast_standalone.apiserver.documents.jsonpath import compile_path
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.apiserver.kinds.rules import AGE, NAME, Cells, age_of, selector_text
from pyroclast_standalone.times import parse_time, since

_Cell: TypeAlias = Callable[[Mapping[str, Any], float], Any]

_FEW: Final = 3
_SHORT_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_SLOT: Final = re.compile(r"\{(?P<path>\.[^}|?]*(?:\?\([^)]*\)[^}|?]*)?)(?:(?P<hidden>\?)|\|(?P<otherwise>[^}]*))?\}")


def _few(found: list[Any]) -> str:
    more = f" + {len(found) - _FEW} more..." if len(found) > _FEW else ""
    return ",".join(map(str, found[:_FEW])) + more


def _span(found: list[Any], now: float) -> str:
    """Return the duration from the first time to the second time or now."""
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
    """Return a cell that is None when a path in the text does not exist."""
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
    """Return the data table: the columns of each kind, with the group before the kind."""
    text = resources.files(__package__).joinpath("data", "columns.yaml").read_text()
    table: Mapping[str, Sequence[Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return table


@cache
def printed(group: str, kind: str) -> tuple[Sequence[Column], Cells]:
    """Return the columns and cells of a kind. A kind that the data table lacks has name and age."""
    entries = entries_of().get(f"{group}/{kind}" if group else kind) or ["age"]
    columns = [AGE if entry == "age" else _column(entry) for entry in entries]
    if all(column.name != NAME.name for column in columns):
        columns.insert(0, NAME)
    readers = [age_of if entry == "age" else _cell(entry) for entry in entries if entry == "age" or {"at", "text"} & set(entry)]
    return columns, lambda document, now: [document["metadata"]["name"], *(read(document, now) for read in readers)]
