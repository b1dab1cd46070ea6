"""`python -m pyroclast_scheduler check FILE` tells whether the scheduler can use a configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyroclast_scheduler.__main__ import main

GOOD = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
CASES = {
    "usable": (GOOD, 0, {"error": "", "warnings": []}),
    "a plugin that does not exist, skipped": (
        GOOD + "  - name: magic\n",
        0,
        {"error": "", "warnings": ["line 5: Failed to get plugin magic."]},
        "--skip-unknown-plugins",
    ),
    "not a mapping": ("- a", 1, {"error": "line 1: a mapping with actions and tiers is wanted", "warnings": []}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_check_command_prints_errors_and_warnings_as_json_with_an_exit_status(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], case: tuple[str, int, object]
) -> None:
    text, want_status, want, *flags = case
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(text)
    assert (main(["check", *flags, str(file)]), json.loads(capfdbinary.readouterr().out)) == (want_status, want)


def test_the_check_command_names_the_nearest_plugin_for_one_that_does_not_exist(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(GOOD.replace("gang", "gnag"))
    assert main(["check", str(file)]) == 1
    assert json.loads(capfdbinary.readouterr().out)["error"].startswith(
        "line 4: plugin 'gnag' does not exist; did you mean gang? (there are: binpack, capacity, "
    )


def test_the_check_command_exits_with_2_for_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_check_command_prints_its_usage_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: ")
