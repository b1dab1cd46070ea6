"""Every command of `vcctl` and `pyroclast` that a page shows has a command and flags that exist."""

import re

import pytest

from pyroclast_cli import programs
from pyroclast_standalone import __main__ as standalone
from tests.unit.docs.pages import PAGES, blocks


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
    assert programs.vcctl([*command.split("|")[0].split()[1:], "--help"]) == 0, page
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
