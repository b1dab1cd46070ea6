"""What the tabulator key offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from pyroclast_cli import programs
from tests.unit.cli.golden.server import serving


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["wa"], ["wait", "waiting"]),
        (["job", "s"], ["suspend"]),
        (["job", "view", "--na"], ["--name", "--namespace"]),
        (["waiting", "--sor"], ["--sort-by"]),
        (["nothing", ""], None),
        (["tree", "x"], []),
        (["top", ""], ["jobs", "nodes", "queues", "tasks"]),
        (["report", "u"], ["usage"]),
        (["waiting", "-o", "j"], ["json", "jsonpath="]),
        (["waiting", "--output=cs"], ["--output=csv"]),
        (["timeline", "x", "-o", "s"], ["svg"]),
        (["timeline", "x", "-o", "t"], ["table", "trace"]),
        (["wait", "x", "--for", "Com"], ["Completed", "Completing"]),
        (["wait", "x", "--for=Com"], ["--for=Completed", "--for=Completing"]),
        (["wait", "x", "--for", "=", "Com"], ["Completed", "Completing"]),
        (["report", "usage", "--per", "d"], ["day"]),
        (["nodes", "--by", "t"], ["tier"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["completion", "z"], ["zsh"]),
        (["explain", "q"], ["queue/"]),
        (["lint", "-f", ""], []),
        (["waiting", "-A", "--lim"], ["--limit"]),
        ([], None),
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


def test_hidden_complete_command_is_neither_offered_nor_listed(capsys):
    assert programs.vcctl(["__complete", "--", ""]) == 0
    assert "__complete" not in capsys.readouterr().out
    assert programs.vcctl(["commands"]) == 0
    assert "__complete" not in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid_for_each_shell(shell, capsys):
    assert programs.vcctl(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "vcctl __complete --" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_for_an_unknown_shell_fails_and_names_the_known_shells(capsys):
    assert programs.vcctl(["completion", "tcsh"]) == 1
    assert "name a shell: bash, zsh, fish" in capsys.readouterr().err


CONTEXTS = "apiVersion: v1\nkind: Config\ncontexts: [{name: home, context: {}}, {name: work, context: {}}]\n"


def test_context_completion_offers_the_contexts_of_the_kubeconfig_files(capsys, monkeypatch, tmp_path):
    (tmp_path / "one").write_text(CONTEXTS)
    (tmp_path / "two").write_text("- no kubeconfig")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{tmp_path / 'two'}:{tmp_path / 'three'}")
    assert programs.vcctl(["__complete", "--", "waiting", "--context", ""]) == 0
    assert capsys.readouterr().out.split() == ["home", "work"]


@pytest.fixture(scope="module")
def server():
    with serving() as url:
        yield url


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["explain", "-n", "team", "s"], ["second"]),
        (["explain", "-n", "team", "job/b"], ["job/big"]),
        (["explain", "queue/"], ["queue/nightly", "queue/research", "queue/root"]),
        (["explain", "node/gp"], ["node/gpu-1"]),
        (["explain", "-n", "team", "flow/"], []),
        (["tree", "--namespace=team", ""], ["etl"]),
        (["flow", "resume", "-n", "team", ""], ["etl"]),
        (["job", "view", "-n", "team", "-N", "h"], ["huge"]),
        (["queue", "get", "-n", "re"], ["research"]),
        (["jobflow", "get", "-n", "team", "-N", ""], ["etl"]),
        (["waiting", "-q", "n"], ["nightly"]),
        (["waiting", "--queue=n"], ["--queue=nightly"]),
        (["waiting", "-n", "t"], ["team"]),
        (["order", "r"], ["research", "root"]),
        (["nodes", "--by", "z"], ["zone"]),
        (["logs", "-n", "team", "big", "h"], []),
    ],
)
def test_completion_offers_object_names_from_the_cluster(words, offered, server, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    path = 2 if words[0] in {"job", "queue", "jobflow", "flow"} else 1
    assert programs.vcctl(["__complete", "--", *words[:path], "--master", server, *words[path:]]) == 0
    assert capsys.readouterr().out.split() == offered


def test_bash_completes_values_behind_an_equals_sign(capsys, tmp_path):
    assert programs.vcctl(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "vcctl").write_text(f'#!/bin/sh\nexec {sys.executable} -m pyroclast_cli "$@"\n')
    (tmp_path / "vcctl").chmod(0o755)
    asked = "COMP_WORDS=(vcctl wait x --for = Comp); COMP_CWORD=5; _vcctl; echo ${COMPREPLY[@]}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Completed", "Completing"]
