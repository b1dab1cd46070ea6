"""Every `vcctl` command that a page shows has a command and flags that exist."""

import re

import pytest

from pyroclast_cli import programs
from tests.unit.docs.pages import PAGES, blocks

COMMANDS = sorted(
    {
        (page, line.split(" #")[0].strip())
        for page, text in PAGES.items()
        for block in blocks(text, "", "console", "sh", "bash")
        for line in block.splitlines()
        if re.match(r"vcctl [a-z]", line)
    }
)


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_vcctl_exists_with_its_flags(page, command, capsys):
    # --help takes the place of what the command would do, after its flags have been read
    assert programs.vcctl([*command.split("|")[0].split()[1:], "--help"]) == 0, page
    shown = capsys.readouterr().out
    assert "Usage:\n" in shown


def test_a_flag_that_does_not_exist_is_found(capsys):
    assert programs.vcctl(["waiting", "--no-such-flag", "--help"]) != 0
    assert "no-such-flag" in capsys.readouterr().err
