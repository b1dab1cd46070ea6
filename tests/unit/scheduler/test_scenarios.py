"""Every scenario that the actions and plugins at hand cover, through the real decision code."""

from pathlib import Path

import pytest

from tests.scenarios import __main__ as scenarios

FILES = sorted((Path(scenarios.__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenarios(path):
    results = list(scenarios.results([path]))
    assert results
    assert {result.name: result.differences for result in results if result.differences} == {}


def test_what_is_not_there_yet_is_told_and_not_run():
    missing = {name for result in scenarios.results(FILES) for name in result.missing}
    assert not {
        name for name in missing if name.removeprefix("plugin ") in {"gang", "predicates", "priority", "proportion", "drf"}
    }
    assert not {name for name in missing if name.removeprefix("action ") in {"enqueue", "allocate", "backfill"}}


def test_a_case_that_is_not_covered_counts_against_the_outcome(tmp_path, capsys):
    path = tmp_path / "cases.yaml"
    path.write_text("- {id: X1, kind: nothing-like-it}")
    assert scenarios.main([str(path)]) == 1
    assert "1 cases not covered yet" in capsys.readouterr().out
