"""The forms of `-o`, the order and the number of rows; the golden files have each form of each list, empty and full."""

from __future__ import annotations

import json

import pytest

from pyroclast_cli.flags import Context, Failure
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, write
from pyroclast_cli.views.templates import TemplateError, render

COLUMNS = (Column("NAME", "name"), Column("PODS", "pods"), Column("WHY", "why", str.upper), Column("MORE", "more", is_wide=True))
ROWS = ({"name": "b", "pods": 10, "why": "full", "more": [1]}, {"name": "a", "pods": 9, "why": None, "more": None})


def printed(capsys, rows=ROWS, **flags) -> str:
    values = {flag.name: flag.default for flag in TABLE_FLAGS} | {name.replace("_", "-"): value for name, value in flags.items()}
    write(Context(values), Table("Thing", COLUMNS, rows, "thing.example.com", "nothing there"))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "NAME   PODS   WHY\nb      10     FULL\na      9      -\n"),
        ({"no_headers": True}, "b   10   FULL\na   9    -\n"),
        ({"output": "wide"}, "NAME   PODS   WHY    MORE\nb      10     FULL   [1]\na      9      -      -\n"),
        ({"output": "csv"}, "name,pods,why,more\nb,10,full,[1]\na,9,,\n"),
        ({"output": 'jsonpath={range .items[*]}{.name}={.pods}{"\\n"}{end}'}, "b=10\na=9\n\n"),
        ({"output": "custom-columns=N:.name,M:.more[0]"}, "N   M\nb   1\na   <none>\n"),
        ({"sort_by": "pods", "output": "name"}, "thing.example.com/a\nthing.example.com/b\n"),
        ({"sort_by": "-NAME", "output": "name"}, "thing.example.com/b\nthing.example.com/a\n"),
        ({"sort_by": "why", "output": "name"}, "thing.example.com/b\nthing.example.com/a\n"),
        ({"sort_by": "-why", "output": "name"}, "thing.example.com/b\nthing.example.com/a\n"),
        ({"limit": 1, "output": "name"}, "thing.example.com/b\n"),
        ({"output": "csv", "no_headers": True}, "b,10,full,[1]\na,9,,\n"),
    ],
)
def test_list_is_printed_in_each_output_format(flags, text, capsys):
    assert printed(capsys, **flags) == text


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (["10", "9", "500m"], ["500m", "9", "10"]),
        (["2Gi", "512Mi", "1Ti"], ["512Mi", "2Gi", "1Ti"]),
        ([10, 9.5, None], [9.5, 10, None]),
        (["b", "10", "a"], ["10", "a", "b"]),
        ([{"cpu": "10"}, {"cpu": "9"}, {}, {"nvidia.com/gpu": "1"}], [{"cpu": "9"}, {"cpu": "10"}, {"nvidia.com/gpu": "1"}, {}]),
    ],
)
def test_sort_by_orders_quantities_by_value(values, want, capsys):
    rows = [{"name": "x", "pods": value} for value in values]
    assert [row["pods"] for row in json.loads(printed(capsys, rows, output="json", sort_by="pods"))["items"]] == want


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"output": "xml"}, 'there is no form "xml"'),
        ({"output": "jsonpath="}, "there is no form"),
        ({"output": "jsonpath={.items"}, "brace is not closed"),
        ({"output": "custom-columns=NAME"}, "is not HEADER:PATH"),
        ({"sort_by": "size"}, "there are name, pods, why, more"),
        ({"limit": -1}, "less than 0"),
    ],
)
def test_invalid_output_sort_or_limit_flag_fails_with_the_reason(flags, message, capsys):
    with pytest.raises(Failure, match=message):
        printed(capsys, **flags)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.a.b}", "1"),
        ("{.a['b']}", "1"),
        ("{.list[-1]}", "y"),
        ("{.list[*]}", "x y"),
        ("{.gone}", ""),
        ("{.a}", '{"b":1}'),
        ("{$.a.b} {@.a.b}", "1 1"),
        ('a{"\\t"}b', "a\tb"),
        (r"{.dotted\.name}", "z"),
    ],
)
def test_jsonpath_template_is_rendered(template, text):
    assert render(template, {"a": {"b": 1}, "list": ["x", "y"], "dotted.name": "z"}) == text


@pytest.mark.parametrize("template", ["{.a[?(@.b==1)]}", "{range .a}", "{end}", "{..a}"])
def test_unsupported_jsonpath_template_raises_template_error(template):
    with pytest.raises(TemplateError):
        render(template, {})
