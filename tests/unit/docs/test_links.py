"""What the pages of the documentation name exists: links, commands, values of the chart, programs, manifests and pictures."""

import ast
import re

import pytest
import yaml

from pyroclast.api.enums import JobPhase
from pyroclast.lifecycle.job.phase_transitions import MOVES, PROGRESS
from pyroclast_board.serving.pages import ROUTES
from pyroclast_cli import programs
from pyroclast_cli.views.manifests import check_manifests
from pyroclast_scheduler import registry
from pyroclast_scheduler.session import configuration
from pyroclast_standalone import __main__ as standalone
from tests.unit.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, links


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    for file, anchor in links(PAGES[page]):
        target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert target.exists(), f"{page}: there is no {file}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), f"{page}: {target.name} has no heading #{anchor}"


def reached_from_the_index():
    """The pages that the index of docs leads to, by links to a page or to its folder."""
    reached, new = set(), {"docs/README.md"}
    while new:
        reached |= new
        targets = {((ROOT / each).parent / file).resolve() for each in new for file, _ in links(PAGES[each]) if file}
        new = {page for page in PAGES if {ROOT / page, (ROOT / page).parent} & targets} - reached
    return reached


REACHED = reached_from_the_index()


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_page_of_docs_is_reached_from_its_index(page):
    assert page in REACHED


def shown(program):
    """The commands of a program that the pages show, with their page."""
    return sorted(
        {
            (page, line.split(" #")[0].strip())
            for page, text in PAGES.items()
            for block in blocks(text, "", "console", "sh", "bash")
            for line in block.splitlines()
            if re.match(rf"(\.venv/bin/)?{program} [a-z]", line)
        }
    )


@pytest.mark.parametrize(("page", "command"), shown("vcctl"))
def test_a_command_of_vcctl_exists_with_its_flags(page, command, capsys):
    # --help takes the place of what the command would do, after its flags have been read
    flags, separator, rest = command.split("|")[0].partition(" -- ")
    assert programs.vcctl([*flags.split()[1:], "--help", *(separator + rest).split()]) == 0, page
    assert "Usage:\n" in capsys.readouterr().out


@pytest.mark.parametrize(("page", "command"), shown("pyroclast"))
def test_a_command_of_pyroclast_exists_with_its_flags(page, command, tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("")
    arguments = [
        str(kubeconfig) if word.endswith(("/.kube/config", "$KUBECONFIG")) else word
        for word in command.split(" > ")[0].split()[1:]
    ]
    assert standalone._parser().parse_args(arguments).command, page


def test_vcctl_refuses_an_unknown_flag_despite_help(capsys):
    assert programs.vcctl(["waiting", "--no-such-flag", "--help"]) != 0
    assert "no-such-flag" in capsys.readouterr().err


VALUES = yaml.safe_load((ROOT / "charts" / "pyroclast" / "values.yaml").read_text())
NAMED = {page: sorted(set(re.findall(r"\b(custom|basic)\.([a-z][a-z_]+[a-z])\b", text))) for page, text in PAGES.items()}


def unknown(values, known, path=""):
    """The keys of a values file that the chart does not have."""
    found = []
    for key, value in values.items():
        if key not in known:
            found.append(path + key)
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            found += unknown(value, known[key], f"{path}{key}.")
    return found


@pytest.mark.parametrize("page", [page for page, named in NAMED.items() if named])
def test_a_value_that_a_page_names_exists(page):
    assert [f"{group}.{name}" for group, name in NAMED[page] if name not in VALUES[group]] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_values_file_that_a_page_shows_has_known_keys(page):
    files = [yaml.safe_load(block) for block in blocks(PAGES[page], "yaml") if re.match(r"custom:|basic:|webhook:", block)]
    assert [key for values in files for key in unknown(values, VALUES)] == []


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


FOLDER = DOCS / "reference" / "web-page"
SHOWN = {file for file, _ in links((DOCS / "reference" / "web-page.md").read_text())}
MOST_BYTES = 2_500_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*ROUTES.values(), "login"])
def test_every_board_page_has_a_picture_shown_in_the_reference(name, scheme):
    file = f"{name}-{scheme}.webp"
    assert (FOLDER / file).exists(), "make it with tests/e2e/board/test_pictures.py"
    assert f"web-page/{file}" in SHOWN


def test_each_picture_is_shown_and_all_are_small():
    found = {file.name: file.stat().st_size for file in FOLDER.iterdir()}
    assert {f"web-page/{name}" for name in found} <= SHOWN
    assert sum(found.values()) < MOST_BYTES


def picture():
    """The table as a Mermaid diagram; along an arrow without a label, the phase moves on by itself."""
    lines = ["stateDiagram-v2", f"  [*] --> {JobPhase.PENDING}"]
    for phase in [each for each in JobPhase if each is not JobPhase.NEW]:
        lines += [f"  {phase} --> {target}" for target in PROGRESS[phase]]
        arrows = {}
        for action, move in MOVES[phase].items():
            if move.to is not None:
                arrows.setdefault(move.to, []).append(action)
        lines += [f"  {phase} --> {target}: {', '.join(sorted(actions))}" for target, actions in arrows.items()]
    return "\n".join(lines) + "\n"


def test_the_page_of_jobs_shows_the_phases():
    assert blocks(PAGES["docs/reference/jobs.md"], "mermaid") == [picture()]


def documents(text, *keys):
    """The documents of the page's YAML blocks that have these keys."""
    found = [each for block in blocks(text, "yaml") for each in yaml.safe_load_all(block)]
    return [each for each in found if isinstance(each, dict) and set(keys) <= set(each)]


def manifests(text):
    return documents(text, "apiVersion", "kind")


CONFIGURATIONS = {page: found for page, text in PAGES.items() if (found := documents(text, "actions", "tiers"))}
FOUND = {page: found for page, text in PAGES.items() if (found := manifests(text))}


@pytest.mark.parametrize("page", FOUND)
def test_the_manifests_of_a_page_are_accepted(page):
    results = check_manifests(FOUND[page], "default")
    assert [(result.name, fault) for result in results for fault in result.faults] == []


def test_the_tutorials_and_how_to_guides_show_manifests():
    assert len([page for page in FOUND if page.startswith(("docs/tutorials/", "docs/how-to/"))]) > 10


@pytest.mark.parametrize("page", CONFIGURATIONS)
def test_the_scheduler_uses_the_configurations_of_a_page_without_warnings(page):
    for found in CONFIGURATIONS[page]:
        parsed = configuration.parse(yaml.safe_dump(found), actions=registry.actions(), plugins=registry.plugins())
        assert parsed.warnings == ()
