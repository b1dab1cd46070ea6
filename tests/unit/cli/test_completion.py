"""What the tabulator key offers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pyroclast_cli import programs


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["wa"], ["wait", "waiting"]),
        (["job", "s"], ["suspend"]),
        (["job", "view", "--na"], ["--name", "--namespace"]),
        (["waiting", "--sor"], ["--sort-by"]),
        (["nothing", ""], None),
        (["tree", "x"], []),
    ],
)
def test_commands_and_flags_are_completed(words, offered, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert programs.vcctl(["__complete", "--", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    if offered is not None:
        assert printed.out.split() == offered


def test_the_command_behind_it_is_not_offered(capsys):
    assert programs.vcctl(["__complete", "--", ""]) == 0
    assert "__complete" not in capsys.readouterr().out
    assert programs.vcctl(["commands"]) == 0
    assert "__complete" not in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_reads_its_script(shell, capsys):
    assert programs.vcctl(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "vcctl __complete --" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_a_shell_that_is_not_known_is_named(capsys):
    assert programs.vcctl(["completion", "tcsh"]) == 1
    assert "name a shell: bash, zsh, fish" in capsys.readouterr().err
