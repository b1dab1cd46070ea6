"""`vcctl ui`, driven by Textual's pilot against an embedded API server, and without Textual or a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import pty
import struct
import sys
import termios
from collections.abc import AsyncIterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, RichLog, Static

from pyroclast.api.types import JOBS, NODES, QUEUES, Key
from pyroclast_cli import programs
from pyroclast_cli.flags import GLOBAL_FLAGS, Context, parse
from pyroclast_cli.ui import UI
from pyroclast_cli.ui.app import Explorer, TextScreen, harmless
from tests.unit.board.conftest import FULL, Board, prepared_server

WHY = FULL.partition("; ")[2]


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Board]:
    """An API server with Jobs that wait, one that runs, a queue and two equal nodes."""
    async with prepared_server() as (server, client):
        board = Board(server, client, "")
        spec = {"weight": 1, "capability": {"cpu": "8"}}
        await board.put(QUEUES, {"metadata": {"name": "research"}, "spec": spec, "status": {"state": "Open"}})
        ready = {"allocatable": {"cpu": "8", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
        for number in range(2):
            await board.put(NODES, {"metadata": {"name": f"node-{number}"}, "status": ready})
        for name in ("train", "sweep"):
            await board.job("team", name, code=WHY)
        await board.job("other", "hidden", code=WHY)
        await board.job("team", "big", phase="Running")
        yield board


@contextlib.asynccontextmanager
async def screen(*arguments: str) -> AsyncIterator[tuple[Explorer, Pilot[Any], Board]]:
    """The application over a cluster."""
    values, _ = parse(arguments, (*UI.all_flags, *GLOBAL_FLAGS))
    async with cluster() as board:
        app = Explorer(Context(values, connection=board.client))
        async with app.run_test(size=(160, 40)) as pilot:
            yield app, pilot, board


async def until(pilot: Pilot[Any], holds: Any, what: str) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await pilot.pause(0.05)
    assert holds(), what


def rows(app: Explorer) -> list[str]:
    table = app.query_one(DataTable)
    return [" ".join(str(cell) for cell in table.get_row_at(index)) for index in range(table.row_count)]


def title(app: Explorer) -> str:
    return str(app.query_one("#title", Static).content)


async def lines(app: Explorer, pilot: Pilot[Any], word: str) -> str:
    """The lines of the screen of a row, once they have a word; then leaves it."""

    def shown() -> str:
        return "\n".join(app.screen.lines) if isinstance(app.screen, TextScreen) else ""

    await until(pilot, lambda: word in shown(), word)
    found = shown()
    assert len(app.screen.query_one(RichLog).lines) >= len(app.screen.lines)
    await pilot.press("escape")
    assert not isinstance(app.screen, TextScreen)
    return found


async def test_ui_list_follows_the_cluster_and_keeps_the_cursor_on_the_selected_job() -> None:
    async with screen("-n", "team") as (app, pilot, board):
        await until(pilot, lambda: len(rows(app)) == 2, "the Jobs that wait")
        assert title(app) == "waiting in team: 2"
        await pilot.press("down")
        selected = rows(app)[1]
        await board.client.delete(JOBS, Key("team", rows(app)[0].split()[2]))
        await until(pilot, lambda: len(rows(app)) == 1, "one to go")
        assert rows(app)[0].split()[2] == selected.split()[2]
        assert app.query_one(DataTable).cursor_row == 0
        await board.job("team", "young", code=WHY)
        await until(pilot, lambda: len(rows(app)) == 2, "a new one")
        await pilot.press("q")
    assert app.return_code == 0


async def test_ui_keys_filter_rows_switch_lists_and_open_explanations() -> None:
    async with screen("-A") as (app, pilot, _board):
        await until(pilot, lambda: len(rows(app)) == 3, "the Jobs that wait")
        await pilot.press("slash", *"swe")
        assert ["sweep" in each for each in rows(app)] == [True]
        assert title(app) == 'waiting in all namespaces: 1 of 3 with "swe"'
        await pilot.press("enter", "enter")
        told = await lines(app, pilot, "QueueFull")
        assert "team/sweep waits for" in told
        await pilot.press("escape")
        assert len(rows(app)) == 3
        await pilot.press("colon", *"run", "enter")
        await until(pilot, lambda: len(rows(app)) == 1, "the Job that runs")
        assert title(app) == "running in all namespaces: 1"
        await pilot.press("t")
        assert "The Job has no pods" in await lines(app, pilot, "no pods")
        await pilot.press("colon", *"queues", "enter")
        await until(pilot, lambda: any("research" in each for each in rows(app)), "the queues")
        at = next(index for index, each in enumerate(rows(app)) if "research" in each)
        app.query_one(DataTable).move_cursor(row=at)
        await pilot.press("enter")
        assert "research" in await lines(app, pilot, "queue")
        await pilot.press("colon", *"no", "enter")
        await until(pilot, lambda: len(rows(app)) == 1 and "Ready" in rows(app)[0], "the nodes")
        for key, said in (("enter", "2 equal nodes share this row"), ("l", "this row is no Job")):
            await pilot.press(key)
            await until(pilot, lambda said=said: said in "".join(each.message for each in app._notifications), said)
        await pilot.press("colon", *"pods", "enter")
        await until(pilot, lambda: 'there is no list "pods"' in "".join(each.message for each in app._notifications), "a no")
        assert not app.query_one(Input).display


async def test_ui_shows_an_error_for_an_invalid_label_selector_and_can_switch_lists() -> None:
    async with screen("-n", "team", "-l", "===") as (app, pilot, _board):
        await until(pilot, lambda: app.query_one("#problem", Static).display, "what is wrong")
        assert rows(app) == []
        await pilot.press("colon", *"queues", "enter")
        await until(pilot, lambda: any("research" in each for each in rows(app)), "the queues")
        assert not app.query_one("#problem", Static).display


async def test_ui_neutralizes_escape_sequences_and_markup_in_object_texts() -> None:
    assert harmless("a\x1b[2Jb\tc") == "a\N{REPLACEMENT CHARACTER}[2Jb\tc"
    async with screen("-n", "team") as (app, pilot, board):
        uid = await board.job("team", "evil", code="QueueFull: not now: \x1b]0;x\x07[bold]")
        assert uid
        await until(pilot, lambda: len(rows(app)) == 3, "the Job")
        app.query_one(DataTable).move_cursor(row=next(i for i, each in enumerate(rows(app)) if "evil" in each))
        await pilot.press("enter")
        told = await lines(app, pilot, "evil")
        assert "\x1b" not in told
        assert "[bold]" in told, "it is no markup"


class Terminal:
    """What a program wrote to its terminal."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.written = b""
        asyncio.get_running_loop().add_reader(self.master, self._read)

    def _read(self) -> None:
        self.written += os.read(self.master, 65536)

    async def until(self, word: bytes) -> None:
        async with asyncio.timeout(60):
            while word not in self.written:
                await asyncio.sleep(0.05)
        self.written = b""

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)


async def test_ui_runs_in_a_real_terminal_and_restores_it_on_quit() -> None:
    async with cluster() as board:
        terminal = Terminal()
        arguments = ("-m", "pyroclast_cli", "ui", "-A", "--kubeconfig", str(board.server.kubeconfig))
        environment = {**os.environ, "TERM": "xterm-256color"}
        at = {"stdin": terminal.slave, "stdout": terminal.slave, "stderr": terminal.slave}
        before = termios.tcgetattr(terminal.slave)
        program = await asyncio.create_subprocess_exec(sys.executable, *arguments, env=environment, start_new_session=True, **at)
        try:
            await terminal.until(b"sweep")
            terminal.press(b"/swe\r")
            await terminal.until(b"1 of 3")
            async with asyncio.timeout(60):
                while b"waits for" not in terminal.written:
                    terminal.press(b"\r")
                    await asyncio.sleep(1)
            terminal.written = b""
            terminal.press(b"q")
            await terminal.until(b"1 of 3")  # the list is drawn again
            terminal.press(b"q")
            assert await asyncio.wait_for(program.wait(), 30) == 0
            await terminal.until(b"\x1b[?1049l")
            assert termios.tcgetattr(terminal.slave) == before
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
            os.close(terminal.slave)
            terminal.close()


def test_ui_without_textual_prints_one_line_on_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "textual" else find(name, *more))
    assert programs.vcctl(["ui", "--master", "http://127.0.0.1:1"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "vcctl ui: Textual is not installed: pip install 'pyroclast-cli[ui]'\n")


def test_ui_without_a_terminal_fails_and_suggests_vcctl_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    assert programs.vcctl(["ui", "--master", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "vcctl ui: there is no terminal; `vcctl waiting -w` writes to pipes and files\n"
