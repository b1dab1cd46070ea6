"""Prints rows in each form of the flag `-o`. The table and the JSON contain the same rows."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from pyroclast.resources import quantity
from pyroclast.views.contract import Row, document
from pyroclast.views.readable import amount
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.views.templates import TemplateError, lookup, parse_path, render


def padded(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return the rows with each column padded to its width. A longer value shifts the rest of its row. Trailing spaces remain."""
    return ["".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in rows]


def fitted(rows: Sequence[Sequence[str]], gap: int) -> list[str]:
    """Return the rows with each column as wide as its longest value plus `gap` spaces."""
    return padded(rows, [max(len(row[column]) for row in rows) + gap for column in range(len(rows[0]))])


FORMATS: Final = "table, wide, name, json, yaml, csv, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,…"
OUTPUT: Final = Flag("output", "o", "table", FORMATS)
TABLE_FLAGS: Final = (
    OUTPUT,
    Flag("sort-by", "", "", "a column, or -COLUMN for the other direction"),
    Flag("no-headers", "", default=False, text="leave out the line of headers", kind="bool"),
    Flag("limit", "", 0, "rows to show at most, 0 for all", "int"),
)
GAP: Final = 3
LEAST_PROSE: Final = 24
"""Characters of prose that a narrow terminal shows at least."""
_NOTHING: Final[tuple[Any, ...]] = (None, "", {}, [])


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the JSON field `field`, or the field `plain` with `-o csv`. `text` formats a value for the table.

    On a terminal that is too narrow, the column with the highest `drop` is left out first; one with 0 never is. Prose, which
    is in the last column, is cut there.
    """

    header: str
    field: str
    text: Callable[[Any], str] | None = None
    is_wide: bool = False
    absent: str = "-"
    plain: str = ""
    drop: int = 0
    is_prose: bool = False

    def cell(self, row: Row) -> str:
        """Return the value of this column for a row, as the table shows it."""
        value = row.get(self.field)
        if value is None or value == "":
            return self.absent
        return (self.text(value) if self.text else str(value)) or self.absent


def columns(*fields: str, is_wide: bool = False) -> tuple[Column, ...]:
    """Return columns whose headers are the names of their fields, such as RESERVED-FOR for `reservedFor`."""
    return tuple(Column(re.sub("(?=[A-Z])", "-", field).upper(), field, is_wide=is_wide) for field in fields)


@dataclass(frozen=True, slots=True)
class Table:
    """The output of a command that lists objects.

    `kind` is that of one item in JSON, `reference` the `KIND.GROUP` of `-o name`. `names` is the field with all object names of a
    row that represents several objects. `notes` stand after the table, for people.
    """

    kind: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    reference: str = ""
    empty: str = "No resources found"
    names: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Whole:
    """The output of a command about one object: the document, the text for people, the line for `-o name`, and the `csv` rows."""

    document: Row
    lines: Sequence[str]
    reference: str
    rows: Sequence[Row]


def with_kind(columns: tuple[Column, ...], natives: Sequence[Row]) -> tuple[Column, ...]:
    """Return the columns of Jobs. If some rows are native PodGroups (`natives`), the column with the kind is always shown."""
    return tuple(replace(each, is_wide=False) if each.field == "object" and natives else each for each in columns)


def write(context: Context, table: Table) -> None:
    """Print the table in the requested form."""
    rows = _chosen(context, table)
    form, _, argument = context.text("output").partition("=")
    match form:
        case "table" | "wide" | "":
            _write_table(context, table, rows, is_wide=form == "wide")
            for line in table.notes:
                context.say(line)
        case "name":
            for name in dict.fromkeys(each for row in rows for each in _names(table, row)):
                context.say(f"{table.reference}/{name}" if table.reference else name)
        case "csv":
            _write_csv(context, [column.plain or column.field for column in table.columns], rows)
        case "custom-columns" if argument:
            _write_custom(context, argument, rows)
        case _:
            write_document(context, document(f"{table.kind}List", {"items": list(rows)}))


def _names(table: Table, row: Row) -> Sequence[str]:
    """Return the names of the objects that a row represents."""
    if table.names:
        return [str(name) for name in row[table.names]]
    if "name" not in row:
        raise Failure("-o name: what this command lists has no names; use another form")
    return [str(row["name"])]


def write_one(context: Context, whole: Row, lines: Sequence[str], *, reference: str, rows: Sequence[Row] | None = None) -> None:
    """Print one object in the requested form; as `csv` and `custom-columns` its `rows`, by default the document itself."""
    form, _, argument = context.text("output").partition("=")
    items = [whole] if rows is None else rows
    match form:
        case "table" | "wide" | "":
            for line in lines:
                context.say(line)
        case "name":
            context.say(reference)
        case "csv":
            _write_csv(context, list(items[0]) if items else [], items)
        case "custom-columns" if argument:
            _write_custom(context, argument, items)
        case _:
            write_document(context, whole)


def write_document(context: Context, whole: Row) -> None:
    """Print a document as JSON, YAML or by a template."""
    form, _, argument = context.text("output").partition("=")
    if form == "json":
        context.say(orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode())
    elif form == "yaml":
        import yaml  # noqa: PLC0415 - for this form alone

        plain = orjson.loads(orjson.dumps(whole))
        context.say(yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True).rstrip("\n"))
    elif form == "jsonpath" and argument:
        try:
            context.say(render(argument, whole))
        except TemplateError as error:
            raise Failure(f"-o jsonpath: {error}") from error
    else:
        raise Failure(f'-o: there is no form "{context.text("output")}"; there are {FORMATS}')


def _chosen(context: Context, table: Table) -> Sequence[Row]:
    """Return the rows in the requested order and number."""
    rows, wanted, limit = table.rows, context.text("sort-by"), context.number("limit")
    if wanted:
        name = wanted.removeprefix("-").lower()
        column = next((each for each in table.columns if name in {each.header.lower(), each.field.lower()}), None)
        if column is None:
            headers = ", ".join(each.header.lower() for each in table.columns)
            raise Failure(f'--sort-by: there is no column "{wanted}"; there are {headers}')
        rows = _sorted(rows, column.field, is_reverse=wanted.startswith("-"))
    if limit < 0:
        raise Failure(f"--limit: {limit} is less than 0")
    return rows[:limit] if limit else rows


def _sorted(rows: Sequence[Row], field: str, *, is_reverse: bool) -> list[Row]:
    """Sort the rows by a field: numbers and quantities by size, other values as text. Rows without a value are last."""
    present = [row for row in rows if row.get(field) not in _NOTHING]
    sizes = [_size(row[field]) for row in present]
    if None in sizes:
        keys: list[Any] = [str(row[field]) for row in present]
    else:
        keys = sizes
    order = sorted(range(len(present)), key=keys.__getitem__, reverse=is_reverse)
    return [present[index] for index in order] + [row for row in rows if row.get(field) in _NOTHING]


def _size(value: Any) -> tuple[float, ...] | None:  # noqa: ANN401 - a JSON value
    """Return the sort key of a number, a quantity, or amounts of resources (devices, cpu, memory). None for text."""
    match value:
        case bool():
            return None
        case int() | float():
            return (float(value),)
        case dict():
            devices = sum(float(amount(each)) for name, each in value.items() if "/" in name)
            return (devices, *(float(amount(value.get(name, 0))) for name in ("cpu", "memory")))
        case str():
            try:
                return (float(quantity.parse(value)),)
            except quantity.QuantityError:
                return None
    return None


def _write_table(context: Context, table: Table, rows: Sequence[Row], *, is_wide: bool) -> None:
    if not rows:
        context.say(table.empty)
        return
    columns = [column for column in table.columns if is_wide or not column.is_wide]
    left: list[Column] = []
    width = shutil.get_terminal_size().columns if not is_wide and sys.stdout.isatty() else 0
    if width:
        columns, left = fitting(columns, rows, width)
    cells = [[column.cell(row) for column in columns] for row in rows]
    if width and columns[-1].is_prose:
        room = max(LEAST_PROSE, width - sum(GAP + max(map(len, each)) for each in [*zip(*cells, strict=True)][:-1]))
        cells = [[*each[:-1], each[-1] if len(each[-1]) <= room else f"{each[-1][: room - 1]}…"] for each in cells]
    _write_lines(context, [column.header for column in columns], cells)
    if left:
        context.say(f"Left out, as the terminal is narrow: {', '.join(each.header for each in left)}; -o wide shows all")


def fitting(columns: Sequence[Column], rows: Sequence[Row], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that fit into `width` characters, the least important left out first, and those left out."""
    sizes = {each: GAP + max(len(each.header), *(len(each.cell(row)) for row in rows), 0) for each in columns}
    sizes |= {each: GAP + LEAST_PROSE for each in columns if each.is_prose}
    kept = list(columns)
    for column in sorted((each for each in columns if each.drop), key=lambda each: -each.drop):
        if sum(sizes[each] for each in kept) - GAP <= width:
            break
        kept.remove(column)
    return kept, [each for each in columns if each not in kept]


def _write_lines(context: Context, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    rows = [*([] if context.values.get("no-headers") else [headers]), *cells]
    for line in fitted(rows, GAP) if rows else ():
        context.say(line.rstrip())


def _write_csv(context: Context, fields: Sequence[str], rows: Sequence[Row]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not context.values.get("no-headers"):
        writer.writerow(fields)
    writer.writerows([_csv_cell(row.get(field)) for field in fields] for row in rows)
    if text.tell():
        context.say(text.getvalue().removesuffix("\n"))


def _csv_cell(value: Any) -> str:  # noqa: ANN401 - a JSON value
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _write_custom(context: Context, argument: str, rows: Sequence[Row]) -> None:
    pairs = [each.partition(":") for each in argument.split(",")]
    try:
        columns = [(header, parse_path(path)) for header, _, path in pairs if header and path]
    except TemplateError as error:
        raise Failure(f"-o custom-columns: {error}") from error
    if len(columns) != len(pairs):
        raise Failure(f'-o custom-columns: "{argument}" is not HEADER:PATH,HEADER:PATH,…')
    cells = [[",".join(map(str, lookup(row, path))) or "<none>" for _, path in columns] for row in rows]
    _write_lines(context, [header for header, _ in columns], cells)
