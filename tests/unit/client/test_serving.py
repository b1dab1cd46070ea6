"""The connection between a pool and its warm workers: who may speak on it, and what of it can be forged."""

from __future__ import annotations

import pickle
import socket
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from pyroclast_client import pools
from pyroclast_client.executors import Item
from pyroclast_client.runner import serving

KEY, NONCES = b"k" * 32, b"n" * 64


def channel(side, key=KEY, nonces=NONCES):
    return serving.Channel(key, nonces, side)


def split(frame):
    size, mac = serving.size_of(frame[: serving.HEAD.size])
    content = frame[serving.HEAD.size :]
    assert len(content) == size
    return mac, content


def test_a_frame_arrives_with_its_header_and_parts():
    driver, worker = channel(serving.DRIVER), channel(serving.WORKER)
    for number in range(3):
        assert worker.opened(*split(driver.sealed({"id": number}, b"a\n", b"b"))) == ({"id": number}, b"a\nb")
    assert driver.opened(*split(worker.sealed({}))) == ({}, b"")


@pytest.mark.parametrize(
    "forge",
    [
        lambda mac, content: (mac, content + b"x"),
        lambda mac, content: (bytes(serving.MAC), content),
        lambda mac, content: split(channel(serving.DRIVER, key=b"other" * 6).sealed({"id": 1})),
        lambda mac, content: split(channel(serving.DRIVER, nonces=b"o" * 64).sealed({"id": 1})),  # of another connection
        lambda mac, content: split(channel(serving.WORKER).sealed({"id": 1})),  # reflected
    ],
    ids=["changed", "without a seal", "of another Job", "of another connection", "reflected"],
)
def test_a_forged_frame_is_refused(forge):
    frame = split(channel(serving.DRIVER).sealed({"id": 1}))
    with pytest.raises(serving.Forged):
        channel(serving.WORKER).opened(*forge(*frame))


def test_a_repeated_frame_is_refused():
    driver, worker = channel(serving.DRIVER), channel(serving.WORKER)
    frame = split(driver.sealed({"id": 1}))
    worker.opened(*frame)
    with pytest.raises(serving.Forged):
        worker.opened(*frame)


def test_the_head_of_a_huge_frame_is_refused_before_its_content_is_read():
    with pytest.raises(serving.Forged, match="larger than"):
        serving.size_of(serving.HEAD.pack(1 << 40, bytes(serving.MAC)))


class Trap:
    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def test_a_worker_runs_nothing_for_a_driver_without_the_key():
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        worker = serving.Worker(host, port, KEY, timeout=0, encode=pickle.dumps)

        def drive():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"n" * serving.NONCE)
                connection.recv(serving.GREETING.size)
                connection.sendall(serving.proof(b"guessed" * 5, serving.DRIVER, NONCES))
                connection.sendall(channel(serving.DRIVER).sealed({"do": "call"}, pickle.dumps(Trap())))

        thread = threading.Thread(target=drive)
        thread.start()
        with pytest.raises(ConnectionError, match="does not have the key"):
            worker._connect(1.0)
        thread.join()


def test_the_calls_of_an_evicted_worker_run_next_and_in_their_order():
    pool = pools.Pool(1, client=SimpleNamespace(asynchronous=None))
    first, second, third = (pools._Call(Item(Future(), b"", b"", name), "") for name in ("first", "second", "third"))
    pool._queue.append(third)

    pool._lost(pools._Worker(None, None, calls={1: first, 2: second}), is_evicted=True)

    assert list(pool._queue) == [first, second, third]
