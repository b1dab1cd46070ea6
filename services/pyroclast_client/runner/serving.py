"""Warm workers: a pod connects to the program that created its pool, and runs the calls that the program sends.

This module also runs in pods, so it uses only the standard library. Both sides prove that they have the key of the Job before
anything is read. Each frame has an HMAC over its direction, its number and its content, with a key of this connection alone. So
whoever reaches the port, or changes what is on its way, can neither run code in a worker nor return a result.
"""

from __future__ import annotations

import hmac
import json
import os
import pickle
import secrets
import signal
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NONCE = 32
MAC = 32
HEAD = struct.Struct(f"!Q{MAC}s")
GREETING = struct.Struct(f"!{NONCE}s{MAC}s")
"""Of a worker: its nonce, and the proof that it has the key. Its size bounds what is read from strangers."""
MOST_BYTES = 1 << 30
MOST_CONTENT = MOST_BYTES - 1024
"""The most bytes of a function with its arguments, or of a result. The header of the frame has the rest."""
CONNECT_SECONDS = 60.0
RECONNECT_SECONDS = 15.0
KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
DRIVER, WORKER = b"driver", b"worker"
MOST_FUNCTIONS = 64
"""How many functions a worker keeps loaded. The driver keeps the same count, and sends a function again that it may lack."""


class Forged(Exception):
    """The peer does not have the key, or a frame was changed, left out or repeated."""


def proof(key: bytes, who: bytes, nonces: bytes) -> bytes:
    """Return the proof that this side has the key, for these two nonces."""
    return hmac.digest(key, b"pyroclast pool " + who + nonces, "sha256")


class Channel:
    """Seals the frames that one side sends on a connection, and opens those of the other side."""

    def __init__(self, key: bytes, nonces: bytes, side: bytes) -> None:
        self._key = hmac.digest(key, b"pyroclast pool frames" + nonces, "sha256")
        self._sends, self._reads = (DRIVER, WORKER) if side == DRIVER else (WORKER, DRIVER)
        self._sent = self._read = 0

    def sealed(self, header: dict[str, Any], *parts: bytes) -> bytes:
        """Return a frame: its head, the header as a line of JSON, and the parts."""
        content = b"".join((json.dumps(header, separators=(",", ":")).encode(), b"\n", *parts))
        mac = self._mac(self._sends, self._sent, content)
        self._sent += 1
        return HEAD.pack(len(content), mac) + content

    def opened(self, mac: bytes, content: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the header and the parts of a frame.

        Raises:
            Forged: the frame is not the next one that the other side sealed.
        """
        if not hmac.compare_digest(mac, self._mac(self._reads, self._read, content)):
            raise Forged("a frame is not what was sealed")
        self._read += 1
        header, _, parts = content.partition(b"\n")
        return json.loads(header), parts

    def _mac(self, side: bytes, number: int, content: bytes) -> bytes:
        return hmac.digest(self._key, side + number.to_bytes(8, "big") + content, "sha256")


def size_of(head: bytes) -> tuple[int, bytes]:
    """Return the size and the HMAC in the head of a frame.

    Raises:
        Forged: the frame would be larger than any that is sent.
    """
    size, mac = HEAD.unpack(head)
    if size > MOST_BYTES:
        raise Forged(f"a frame of {size:,} bytes is larger than {MOST_BYTES:,}")
    return size, mac


class Gone(Exception):
    """The program that created the pool has closed the connection, or has ended."""


class Worker:
    """The side of the pod."""

    def __init__(self, host: str, port: int, key: bytes, *, timeout: float, encode: Callable[[Any], bytes]) -> None:
        self._address, self._key, self._timeout, self._encode = (host, port), key, timeout, encode
        self._functions: dict[str, list[Any]] = {}  # the pickle and the function, by digest
        self._lock = threading.Lock()  # held while the deadline is changed
        self._deadline = 0.0
        self._call = 0
        self._is_sending = False
        self._end: SystemExit | None = None  # after SIGTERM

    def serve(self, describe: Callable[[BaseException], bytes], tries: int) -> int:
        """Run calls until the program needs this worker no more. Return how many calls ran."""
        signal.signal(signal.SIGTERM, self._evicted)
        if self._timeout:
            threading.Thread(target=self._watch, daemon=True).start()
        ran, seconds = 0, CONNECT_SECONDS
        while True:
            try:
                self._connect(seconds)
            except OSError as error:
                if ran or seconds == RECONNECT_SECONDS:
                    sys.stderr.write("pyroclast: the program of this pool has ended\n")
                    return ran
                host, port = self._address
                text = f"the program of this pool cannot be reached at {host}:{port}: {error}; run it where pods can reach it"
                raise ConnectionError(f"{text}, or give the pool its address as `host=`") from error
            seconds, self._functions = RECONNECT_SECONDS, {}
            try:
                while self._one(describe, tries):
                    ran += 1
            except (OSError, Gone):
                continue
            return ran

    def _connect(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                self._socket = socket.create_connection(self._address, timeout=10)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        set_up(self._socket)
        theirs, own = self._exactly(NONCE), secrets.token_bytes(NONCE)
        self._socket.sendall(GREETING.pack(own, proof(self._key, WORKER, theirs + own)))
        if not hmac.compare_digest(self._exactly(MAC), proof(self._key, DRIVER, theirs + own)):
            self._socket.close()
            raise ConnectionError("what listens there does not have the key of this Job")
        self._socket.settimeout(None)
        self._channel = Channel(self._key, theirs + own, WORKER)

    def _exactly(self, size: int) -> bytes:
        buffer, place = bytearray(size), 0
        while place < size:
            count = self._socket.recv_into(memoryview(buffer)[place:])
            if not count:
                raise Gone
            place += count
        return bytes(buffer)

    def _one(self, describe: Callable[[BaseException], bytes], tries: int) -> bool:
        """Run the next call, and send its result. Return False when the program needs this worker no more."""
        size, mac = size_of(self._exactly(HEAD.size))
        header, parts = self._channel.opened(mac, self._exactly(size))
        if header["do"] == "leave":
            return False
        self._call = header["id"]
        self._set_deadline(time.monotonic() + self._timeout)
        kind, payload = self._result(header, parts, describe, tries)
        self._set_deadline(0.0)
        self._send(kind, payload)
        return True

    def _set_deadline(self, deadline: float) -> None:
        if self._timeout:
            with self._lock:
                self._deadline = deadline

    def _result(
        self, header: dict[str, Any], parts: bytes, describe: Callable[[BaseException], bytes], tries: int
    ) -> tuple[str, bytes]:
        digest, size = header["function"], header["size"]
        if size:
            self._functions[digest] = [parts[:size], None]
            if len(self._functions) > MOST_FUNCTIONS:
                del self._functions[next(iter(self._functions))]
        for number in range(tries):
            try:
                entry = self._functions[digest]
                if entry[1] is None:
                    entry[1] = pickle.loads(entry[0])  # noqa: S301 - its frame had the HMAC of the driver
                args, kwargs = pickle.loads(parts[size:])  # noqa: S301 - see above
                value = entry[1](*args, **kwargs)
            except BaseException as error:
                if error is self._end:
                    raise
                if number + 1 == tries:
                    return "error", describe(error)
                continue
            break
        try:
            payload = self._encode(value)
        except Exception as error:  # noqa: BLE001 - the client gets it; the function itself succeeded and does not run again
            return "unpicklable", describe(error)
        if len(payload) > MOST_CONTENT:
            return "unpicklable", describe(ValueError(f"it is {len(payload):,} bytes, more than the {MOST_CONTENT:,} of a frame"))
        return "value", payload

    def _send(self, kind: str, payload: bytes = b"") -> None:
        self._is_sending = True
        self._socket.sendall(self._channel.sealed({"id": self._call, "kind": kind}, payload))
        self._is_sending = False
        if self._end is not None:
            raise self._end

    def _evicted(self, *_: object) -> None:
        """On SIGTERM, end so that the call runs in another worker. A frame that is being sent is sent to its end."""
        self._end = SystemExit(75)
        if self._is_sending:
            return
        try:
            self._send("evicted")
        except (OSError, AttributeError):  # not connected: the driver sends nothing to this worker
            raise self._end from None

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self._timeout / 10))
            with self._lock:
                if self._deadline and time.monotonic() > self._deadline:
                    self._end = None
                    self._send("timeout", json.dumps({"seconds": self._timeout}).encode())
                    os._exit(124)


def set_up(connection: socket.socket) -> None:
    """Send small frames at once, and notice a peer that has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
