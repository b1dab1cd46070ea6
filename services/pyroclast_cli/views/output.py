"""Lists of facts in every form that `-o` names; the table is made of the same rows as the JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import yaml

from pyroclast.views.documents import Row, document
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tables import fitted
from pyroclast_cli.views.templates import TemplateError, lookup, parse_path, render

__all__ = ["FORMATS", "OUTPUT", "TABLE_FLAGS", "Column", "Table", "write", "write_document"]

FORMATS: Final = "table, wide, name, json, yaml, csv, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,…"
OUTPUT: Final = Flag("output", "o", "table", FORMATS)
TABLE_FLAGS: Final = (
    OUTPUT,
    Flag("sort-by", "", "", "a column, or -COLUMN for the other direction"),
    Flag("no-headers", "", default=False, text="leave out the line of headers", kind="bool"),
    Flag("limit", "", 0, "rows to show at most, 0 for all", "int"),
)
GAP: Final = 3


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `field` is its name in JSON; `text` writes a value that a table shows in another way; `is_wide`: `-o wide`."""

    header: str
    field: str
    text: Callable[[Any], str] | None = None
    is_wide: bool = False

    def cell(self, row: Row) -> str:
        """The value as the table shows it; `-` where there is none."""
        value = row.get(self.field)
        if value is None or value == "":
            return "-"
        return (self.text(value) if self.text else str(value)) or "-"


@dataclass(frozen=True, slots=True)
class Table:
    """What a command shows. `kind` is that of one item in JSON; `reference` is the `KIND.GROUP` of `-o name`."""

    kind: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    reference: str = ""
    empty: str = "No resources found"


def write(context: Context, table: Table) -> None:
    """Print the table in the form that the user asked for.

    Raises:
        Failure: an unknown form or column, or a template that cannot be read.
    """
    rows = _chosen(context, table)
    form, _, argument = context.text("output").partition("=")
    match form:
        case "table" | "wide" | "":
            _write_table(context, table, rows, is_wide=form == "wide")
        case "name":
            for name in dict.fromkeys(str(row["name"]) for row in rows):
                context.say(f"{table.reference}/{name}" if table.reference else name)
        case "csv":
            for line in _csv_lines(table, rows):
                context.say(line)
        case "custom-columns" if argument:
            _write_custom(context, argument, rows)
        case _:
            write_document(context, document(f"{table.kind}List", {"items": list(rows)}))


def write_document(context: Context, whole: Row) -> None:
    """Print a document as JSON, YAML or by a template.

    Raises:
        Failure: an unknown form, or a template that cannot be read.
    """
    form, _, argument = context.text("output").partition("=")
    if form == "json":
        context.say(orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode())
    elif form == "yaml":
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
    """The rows in the order and number that were asked for."""
    rows, wanted, limit = table.rows, context.text("sort-by"), context.number("limit")
    if wanted:
        name = wanted.removeprefix("-").lower()
        column = next((each for each in table.columns if name in {each.header.lower(), each.field.lower()}), None)
        if column is None:
            known = ", ".join(each.header.lower() for each in table.columns)
            raise Failure(f'--sort-by: there is no column "{wanted}"; there are {known}')
        rows = sorted(rows, key=lambda row: _rank(row.get(column.field)), reverse=wanted.startswith("-"))
    if limit < 0:
        raise Failure(f"--limit: {limit} is less than 0")
    return rows[:limit] if limit else rows


def _rank(value: Any) -> tuple[int, float, str]:  # noqa: ANN401 - a JSON value
    match value:
        case None:
            return (2, 0.0, "")
        case int() | float():
            return (0, value, "")
    return (1, 0.0, str(value))


def _write_table(context: Context, table: Table, rows: Sequence[Row], *, is_wide: bool) -> None:
    if not rows:
        context.say(table.empty)
        return
    columns = [column for column in table.columns if is_wide or not column.is_wide]
    cells = [[column.cell(row) for column in columns] for row in rows]
    _write_lines(context, [column.header for column in columns], cells)


def _write_lines(context: Context, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    lines = fitted([*([] if context.is_set("no-headers") else [headers]), *cells], GAP)
    for line in lines:
        context.say(line.rstrip())


def _csv_lines(table: Table, rows: Sequence[Row]) -> list[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.field for column in table.columns])
    writer.writerows([_csv_cell(row.get(column.field)) for column in table.columns] for row in rows)
    return text.getvalue().splitlines()


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
