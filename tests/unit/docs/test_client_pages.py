"""Every Python program about the client in the documentation is run by a test."""

import ast
import re

from tests.unit.docs.pages import PAGES, ROOT, blocks

WHOLE = {
    "docs/tutorials/python.md": "tests/e2e/client/test_examples.py",
    "docs/explanation/five-tasks.md": "tests/e2e/client/test_examples.py",  # those of the other tools are not run
    "docs/tutorials/notebook.md": "tests/third_party/check_notebook.py",  # the page is made from the notebook
}
"""Pages all of whose programs a test runs."""
BY_SECTION = "docs/how-to/submit-from-other-tools.md"


def test_every_page_with_client_programs_is_covered_by_a_test():
    found = {page for page, text in PAGES.items() if any("pyroclast" in block for block in blocks(text, "python"))}
    assert found == {*WHOLE, BY_SECTION}
    assert "tutorials/python.md" in (ROOT / WHOLE["docs/tutorials/python.md"]).read_text()
    assert "explanation/five-tasks.md" in (ROOT / WHOLE["docs/explanation/five-tasks.md"]).read_text()
    assert "notebook.ipynb" in (ROOT / WHOLE["docs/tutorials/notebook.md"]).read_text()


def test_every_tool_section_has_one_program_that_a_check_runs():
    sections = re.split(r"^## ", PAGES[BY_SECTION], flags=re.MULTILINE)[1:]
    shown = {section.splitlines()[0]: len(blocks(section, "python")) for section in sections}
    assert set(shown.values()) == {1}
    run = set()
    for check in (ROOT / "tests" / "third_party").glob("check_*.py"):
        calls = [node for node in ast.walk(ast.parse(check.read_text())) if isinstance(node, ast.Call)]
        run |= {ast.literal_eval(call.args[0]) for call in calls if getattr(call.func, "id", "") == "example"}
    assert run == set(shown)
