"""Every scenario that the actions and plugins at hand cover, through the real decision code."""

from pathlib import Path

import pytest

from tests.scenarios import __main__ as scenarios

FILES = sorted((Path(scenarios.__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_file_is_covered_and_gives_the_expected_results(path):
    results = list(scenarios.results([path]))
    assert results
    assert {result.name: result.differences for result in results if result.differences} == {}
    assert {result.name: result.missing for result in results if result.missing} == {}


def test_the_scenario_command_fails_for_a_case_of_unknown_kind(tmp_path, capsys):
    path = tmp_path / "cases.yaml"
    path.write_text("- {id: X1, kind: nothing-like-it}")
    assert scenarios.main([str(path)]) == 1
    assert "1 cases not covered yet" in capsys.readouterr().out
