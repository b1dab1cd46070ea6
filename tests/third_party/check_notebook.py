"""The notebook of the documentation, executed by a real Jupyter kernel: without a cluster, then in the cluster of the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import pyroclast.client as pc

NOTEBOOK = Path(__file__).parents[2] / "examples" / "python" / "notebook.ipynb"
INTERPRETER = """
from pyroclast_client import defaults
defaults.client().asynchronous.python = {python!r}  # pods are processes of this machine, whose python3 may be another
"""
ASYNCHRONOUS = """
async with pc.AsyncClient(namespace={namespace!r}, image="local") as client:
    handle = await client.submit(pc.task(python={python!r})(pow).call(2, 8))
    print(await handle.result(), pc.job(f"{{handle.namespace}}/{{handle.name}}").result())
"""


def executed(before: str, after: str) -> list[dict[str, Any]]:
    """What each code cell showed: by MIME type, or "text" for what it printed. An error of a cell raises."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [nbformat.v4.new_code_cell(before), *notebook.cells, nbformat.v4.new_code_cell(after)]
    notebook.cells = [cell for cell in cells if cell.cell_type == "code"]
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    shown = []
    for cell in notebook.cells:
        texts = [output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
        data = {kind: text for output in cell.outputs for kind, text in output.get("data", {}).items()}
        shown.append({**data, **({"text": "".join(texts)} if texts else {})})
    return shown


def judge(shown: list[dict[str, Any]]) -> None:
    _imported, results, handle, log, values, failed, error, squares, later = shown
    assert results["text/plain"] == "['pod 0 of 2', 'pod 1 of 2']"
    assert "Completed" in handle["text/html"]
    assert log["text"] == "[main-0] running\n[main-1] running\n"
    assert re.match(r"\[1\.0,\s+0\.5,\s+[\w.]*TaskError\(", values["text/plain"])
    assert failed["text/plain"] == "[2]"
    assert error["text"] == "ZeroDivisionError('division by zero')\n"
    assert squares["text"] == "[0, 1, 4]\n"
    assert later["text/plain"] == "'pod 0 of 2'"


def test_the_notebook_runs_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROCLAST", "local")
    judge(executed("", "")[1:-1])


def test_the_same_cells_run_in_a_cluster(client: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROCLAST_IMAGE", "local")
    python = client.asynchronous.python
    shown = executed(INTERPRETER.format(python=python), ASYNCHRONOUS.format(namespace=client.namespace, python=python))
    judge(shown[1:-1])
    assert shown[-1]["text"] == "256 256\n"
