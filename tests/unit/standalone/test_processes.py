"""The processes of a control plane and their ports: restart after a kill, a refusal of settings, an orderly stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyroclast_standalone.directory import CommandError, DataDirectory
from pyroclast_standalone.processes import RANGE, Program, Supervisor, free_port, is_free

DRAW = "import random; from pyroclast_standalone import processes; random.choice = lambda _: {port}; processes.free_port()"


def test_no_port_is_drawn_twice_also_by_another_process() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    assert all(port in RANGE and is_free(port) for port in ports)
    other = subprocess.run([sys.executable, "-c", DRAW.format(port=ports[0])], capture_output=True, text=True, check=False)
    assert "no free port found" in other.stderr


def test_server_can_listen_on_a_reserved_port() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)


async def at_once() -> bool:
    return True


async def never() -> bool:
    return False


def pids(lines: list[str]) -> list[int]:
    return [int(line.partition("pid=")[2]) for line in lines if "pid=" in line]


async def until(lines: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while len(pids(lines)) < count:
            await asyncio.sleep(0.02)


async def test_a_killed_process_is_started_again_and_stopped_at_the_end(tmp_path: Path) -> None:
    lines: list[str] = []
    supervisor = Supervisor(tmp_path, lines.append)
    await supervisor.start(Program("clock", "http.server", ("--bind", "127.0.0.1", "0"), at_once))
    watching = asyncio.create_task(supervisor.watch())
    os.kill(pids(lines)[0], signal.SIGKILL)
    await until(lines, 2)
    assert "clock ended (killed by SIGKILL): starting it again in 0.5 s" in lines
    await supervisor.stop()
    await watching
    for pid in pids(lines):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_ended_process_is_logged_with_its_last_line_and_restarted_with_backoff(tmp_path: Path) -> None:
    lines: list[str] = []
    supervisor = Supervisor(tmp_path, lines.append)
    await supervisor.start(Program("clock", "no_such_module", (), at_once))
    watching = asyncio.create_task(supervisor.watch())
    await until(lines, 3)
    await supervisor.stop()
    await watching
    ended = [line for line in lines if "ended" in line]
    assert re.fullmatch(r"clock ended \(status 1, .*No module named no_such_module\): starting it again in 0.5 s", ended[0])
    assert ended[1].endswith("starting it again in 1 s")


async def test_restart_delay_does_not_grow_when_a_running_process_is_killed_again(tmp_path: Path) -> None:
    lines: list[str] = []
    supervisor = Supervisor(tmp_path, lines.append)
    await supervisor.start(Program("clock", "http.server", ("--bind", "127.0.0.1", "0"), at_once))
    watching = asyncio.create_task(supervisor.watch())
    for kills in (1, 2):
        os.kill(pids(lines)[-1], signal.SIGKILL)
        await until(lines, kills + 1)
    await supervisor.stop()
    await watching
    assert [line for line in lines if "ended" in line] == ["clock ended (killed by SIGKILL): starting it again in 0.5 s"] * 2


async def test_supervisor_stops_services_concurrently_and_the_api_server_last(tmp_path: Path) -> None:
    """One after the other they would take longer than whoever waits for the end does, and lose what they depend on.

    Each service here ends only when the other is asked to as well.
    """
    supervisor = Supervisor(tmp_path, lambda _line: None)

    def said(name: str) -> str:
        return (tmp_path / f"{name}.log").read_text()

    for name, beside in (("server", ()), ("one", ("other",)), ("other", ("one",))):

        async def is_ready(name: str = name) -> bool:
            return "ready" in said(name)

        await supervisor.start(
            Program(name, "tests.unit.standalone.lingering", tuple(f"{tmp_path}/{each}.log" for each in beside), is_ready)
        )
    await supervisor.stop()
    times = {name: [float(line.split()[1]) for line in said(name).splitlines()[1:]] for name in ("server", "one", "other")}
    asked, ended = ({name: at[index] for name, at in times.items()} for index in (0, 1))
    assert max(asked["one"], asked["other"]) < min(ended["one"], ended["other"])
    assert asked["server"] > max(ended["one"], ended["other"])


async def test_start_fails_with_the_last_line_of_a_process_that_ends_before_ready(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, lambda _line: None)
    with pytest.raises(CommandError, match=r"clock ended with status 1: .*No module named no_such_module"):
        await supervisor.start(Program("clock", "no_such_module", (), never))


async def test_a_process_that_refuses_its_settings_is_not_tried_for_ever(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, lambda _line: None)
    await supervisor.start(Program("clock", "http.server", ("--no-such-flag",), at_once))
    with pytest.raises(BaseExceptionGroup) as caught:
        await supervisor.watch()
    assert caught.group_contains(CommandError, match="clock refused its settings: .*no-such-flag")
    await supervisor.stop()


def test_data_directory_is_locked_by_one_control_plane(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    assert directory.running_pid() is None
    with directory.locked():
        assert directory.running_pid() == os.getpid()
        with pytest.raises(CommandError, match=f"a control plane runs here already \\(pid {os.getpid()}\\)"), directory.locked():
            pass
    assert directory.running_pid() is None


def test_data_directory_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="give a directory that can be written"):
        DataDirectory(tmp_path / "file" / "data").prepare()
