"""The table of the page about five tasks in four tools has as many lines as its programs."""

import re

import pytest

from tests.unit.docs.pages import PAGES, blocks

PAGE = PAGES["docs/explanation/five-tasks.md"]
TOOLS = ["Pyroclast", "submitit", "TorchX", "Ray"]
ROWS = re.findall(r"^\| (\d)\. .*? \| (.*) \|$", PAGE, re.MULTILINE)


def counted(task: str, tool: str) -> int:
    """The lines of the programs of a tool for a task; commands of a shell count too."""
    section = re.split(rf"^## {task}\. ", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    parts = re.split(rf"^({'|'.join(TOOLS)})\b.*:$", section, flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(tool, "")
    return sum(bool(line.strip()) for block in blocks(text, "python", "") for line in block.splitlines())


@pytest.mark.parametrize(("task", "cells"), ROWS)
def test_table_of_five_tasks_has_the_line_counts_of_its_programs(task, cells):
    told = [int(found[0]) if (found := re.match(r"\d+", cell)) else 0 for cell in cells.split(" | ")]
    assert told == [counted(task, tool) for tool in TOOLS]


def test_table_has_a_row_for_each_of_five_tasks():
    assert [task for task, _ in ROWS] == ["1", "2", "3", "4", "5"]
