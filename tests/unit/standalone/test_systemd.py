"""The unit of `pyroclast service install`, and the rotation of logs. No systemd runs here: its own checker reads the unit."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pyroclast_standalone import __main__ as command
from pyroclast_standalone import systemd
from pyroclast_standalone.processes import rotate

AWKWARD = ["--data-dir", "/srv/with space/100%", "--node-resource", "a.com/b=1", "--node-prefix", 'x"$y']


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("is_system", [True, False])
def test_systemd_accepts_the_unit(tmp_path, is_system):
    unit = tmp_path / systemd.UNIT
    unit.write_text(systemd.unit_text(AWKWARD, is_system=is_system))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_words_of_the_command_reach_the_program_as_they_were_given():
    line = next(each for each in systemd.unit_text(AWKWARD, is_system=True).splitlines() if each.startswith("ExecStart="))
    assert line.endswith(r' up --data-dir "/srv/with space/100%%" --node-resource a.com/b=1 --node-prefix "x\"$$y"')


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["--port", "1"], ["--data-dir", "/default", "--port", "1"]),
        (["--data-dir", "here"], ["--data-dir", "{cwd}/here"]),
        (["--data-dir=here", "--multi-user"], ["--data-dir={cwd}/here", "--multi-user"]),
    ],
)
def test_flags_are_remembered_with_absolute_paths(words, want):
    kept = systemd.flags(words, Path("/default"), (Path("here"), None))
    assert kept == [word.format(cwd=Path.cwd()) for word in want]


def test_install_status_and_uninstall_use_the_systemd_of_the_user(tmp_path, monkeypatch, capsys):
    called = tmp_path / "called"
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {called}\n[ "$1$2" = "is-active" ] || [ "$2" != is-active ] || echo active\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(systemd, "unit_file", lambda: tmp_path / "units" / systemd.UNIT)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = ["service", "install", "--port", "7001", "--nodes", "2", "--data-dir", str(tmp_path / "data")]
    monkeypatch.setattr("sys.argv", ["pyroclast", *words])
    assert command.main() == 0
    assert command.main(["service", "status"]) == 0
    assert "--port 7001 --nodes 2" in capsys.readouterr().out
    assert command.main(["service", "uninstall"]) == 0
    assert called.read_text().splitlines() == [
        f"--user {line.format(systemd.UNIT)}"
        for line in ("daemon-reload", "enable {}", "restart {}", "is-active {}", "disable --now {}", "daemon-reload")
    ]
    assert command.main(["service", "status"]) == 1
    assert "no service is installed" in capsys.readouterr().err


def test_service_refuses_flags_that_up_refuses(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main(["service", "install", "--multi-user"]) == 2
    assert "run it as root" in capsys.readouterr().err


def test_log_above_its_bound_is_moved_while_its_process_appends(tmp_path):
    log = tmp_path / "scheduler.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"before\n")
        rotate(log, most=100)
        assert not (tmp_path / "scheduler.log.1").exists()
        rotate(log, most=3)
        writer.write(b"after\n")
    assert ((tmp_path / "scheduler.log.1").read_text(), log.read_text()) == ("before\n", "after\n")
