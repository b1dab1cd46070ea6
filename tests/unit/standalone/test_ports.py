"""Ports that are drawn before somebody listens there."""

from __future__ import annotations

import socket
import subprocess
import sys

from pyroclast_standalone.processes import RANGE, free_port, is_free

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
