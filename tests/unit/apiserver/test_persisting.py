"""What survives: a stop, a kill in the middle of writes; and what is said of a directory that cannot be used."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from pyroclast.kube.credentials.config import load_config
from pyroclast_standalone.apiserver.storage.persist import DamagedData, SqliteJournal
from tests.unit.running import RunningServer, running_server

from .conftest import CONFIG_MAPS, CRD, PODS, Api, client_of, config_map, pod


async def test_objects_survive_a_restart_and_older_watches_expire(tmp_path: Path) -> None:
    async with running_server(tmp_path, in_memory=False) as server, client_of(server) as api:
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        made = await api.post(CONFIG_MAPS, config_map("a"))
        await api.post(CONFIG_MAPS, config_map("b"))
        await api.delete(f"{CONFIG_MAPS}/b")
        last = server.server.store.revision
    async with running_server(tmp_path, in_memory=False) as server, client_of(server) as api:
        assert (await api.get(f"{CONFIG_MAPS}/a")).body == made.body
        assert (await api.get(f"{CONFIG_MAPS}/b")).code == 404
        assert (await api.get("/apis/example.org/v1/widgets")).code == 200
        assert server.server.store.revision > last
        async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={last}") as watch:
            kind, error = await watch.next()
        assert (kind, error["code"]) == ("ERROR", 410)


async def test_background_controllers_add_no_objects_after_a_restart(tmp_path: Path) -> None:
    claimed = [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]
    async with running_server(tmp_path, in_memory=False) as server, client_of(server) as api:
        await api.post(PODS, pod("plain"))
        await api.post(PODS, pod("claiming", volumes=claimed))
        await server.settle()
        stored = _stored(server)
    async with running_server(tmp_path, in_memory=False) as server, client_of(server) as api:
        await server.settle()
        assert _stored(server) == stored


def _stored(server: RunningServer) -> dict[str, list[str]]:
    return {each.name: list(each.keys()) for each in server.server.store.collections() if each.items}


_SERVER = (sys.executable, "-m", "pyroclast_standalone.apiserver", "--port", "0", "--data-dir")


async def _start(directory: Path) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(*_SERVER, str(directory), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("ready ")
    return process, line.split()[1]


class _Other:
    """What a client needs to know of a server in another process."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.kubeconfig = directory / "kubeconfig"


async def test_a_killed_server_has_every_write_that_it_acknowledged(tmp_path: Path) -> None:
    process, url = await _start(tmp_path)
    acknowledged: list[str] = []

    async def write(api: Api, worker: int) -> None:
        for number in range(1000):
            name = f"c{worker}-{number}"
            try:
                reply = await api.post(CONFIG_MAPS, config_map(name))
            except OSError:
                return
            if reply.code == 201:
                acknowledged.append(name)

    async with client_of(_Other(url, tmp_path)) as api:  # type: ignore[arg-type]
        writers = [asyncio.ensure_future(write(api, worker)) for worker in range(8)]
        while len(acknowledged) < 150:
            await asyncio.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        await asyncio.gather(*writers, return_exceptions=True)
        await process.wait()
    process, url = await _start(tmp_path)
    try:
        async with client_of(_Other(url, tmp_path)) as api:  # type: ignore[arg-type]
            listed = {item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]}
    finally:
        process.terminate()
        await process.wait()
    assert set(acknowledged) <= listed


@pytest.mark.parametrize("content", [b"this is no database", b"SQLite format 3\0" + b"x" * 500])
def test_damaged_database_raises_an_error_naming_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    with pytest.raises(DamagedData, match=r"state\.db: .*; restore it from a copy, or remove it to start empty"):
        SqliteJournal(path)


async def test_server_exits_with_status_1_and_one_line_when_the_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database at all")
    process = await asyncio.create_subprocess_exec(*_SERVER, str(tmp_path), stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode().splitlines() == [
        f"pyroclast-apiserver: {tmp_path}/state.db: file is not a database; restore it from a copy, or remove it to start empty"
    ]


def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "state.db")
    journal.write([("pods", "n/a", 1, b"{}"), ("pods", "n/b", 2, b"{}")])

    with pytest.raises(sqlite3.Error):
        journal.write([("pods", "n/a", 3, None), ("pods", "n/c", 4, object())])  # type: ignore[list-item]
    assert [row[:3] for row in journal.objects()] == [("pods", "n/a", 1), ("pods", "n/b", 2)]
    assert journal.revision() == 2
    journal.close()


async def test_kubeconfig_is_readable_only_by_its_owner_and_names_the_default_namespace(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        assert server.kubeconfig.stat().st_mode & 0o777 == 0o600
        assert json.loads(server.kubeconfig.read_text())["current-context"] == "pyroclast"
        assert load_config(str(server.kubeconfig)).namespace == "default"


async def test_a_full_disk_fails_the_write_and_stops_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012 - it is the whole life of a server that fails
        async with running_server(tmp_path, in_memory=False) as server, client_of(server) as api:
            await api.post(CONFIG_MAPS, config_map("a"))
            monkeypatch.setattr(SqliteJournal, "write", full)
            assert (await api.post(CONFIG_MAPS, config_map("b"))).code == 500
            await asyncio.sleep(5)
    assert "cannot write state: [Errno 28] No space left on device" in str(raised.value.exceptions)
