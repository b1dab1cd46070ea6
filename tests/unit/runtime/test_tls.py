from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from pyroclast.kube.credentials.certificates import load_identity
from pyroclast.runtime import tls
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.tls import ServingTls, TlsFiles
from tests.unit.kube.authority import Authority


def pair(name: str) -> tuple[bytes, bytes]:
    """A certificate for localhost with that common name, of an authority of its own, and its key."""
    return Authority().issue(name)


@asynccontextmanager
async def echo(serving: ServingTls) -> AsyncIterator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=serving.context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def served_name(port: int, *, server_name: str | None = None) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_name or "127.0.0.1")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return str(x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def test_a_replaced_certificate_serves_new_connections_and_an_invalid_one_is_rejected() -> None:
    serving = ServingTls()
    assert not serving.is_ready
    async with echo(serving) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await served_name(port)
        serving.use(*pair("one"))
        assert serving.is_ready
        assert await served_name(port) == "one"
        serving.use(*pair("two"))
        assert await served_name(port, server_name="localhost") == "two"
        serving.use(*Authority().issue("three", rsa.generate_private_key(65537, 2048)))
        assert await served_name(port) == "three"
        with pytest.raises(ValueError, match="not a usable certificate"):
            serving.use(pair("a")[0], pair("b")[1])
        with pytest.raises(ValueError, match="not a usable certificate"):
            serving.use(b"nonsense", b"")
        assert await served_name(port) == "three"


async def test_no_handshake_fails_while_the_certificate_is_replaced() -> None:
    serving = ServingTls()
    pairs = [pair("one"), pair("two")]
    serving.use(*pairs[0])
    async with echo(serving) as port:
        names = [await served_name(port)]

        async def connect() -> None:
            names.extend([await served_name(port) for _ in range(20)])

        async with asyncio.TaskGroup() as group:
            connecting = [group.create_task(connect()) for _ in range(4)]
            turn = 0
            while not all(task.done() for task in connecting):
                turn += 1
                serving.use(*pairs[turn % 2])
                await asyncio.sleep(0.005)
        serving.use(*pairs[1])
        names.append(await served_name(port))
    assert len(names) == 1 + 80 + 1
    assert set(names) == {"one", "two"}


async def test_a_client_certificate_is_optional_but_must_match_the_client_ca() -> None:
    serving = ServingTls()
    authority = Authority()
    good, bad = authority.issue("good"), pair("bad")
    serving.use(*pair("server"), client_ca=authority.pem)

    async def connect(port: int, identity: tuple[bytes, bytes] | None) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if identity is not None:
            load_identity(context, *identity)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"hello")
        try:
            return await reader.readexactly(5)
        finally:
            writer.close()

    async with echo(serving) as port:
        assert await connect(port, None) == b"hello"
        assert await connect(port, good) == b"hello"
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await connect(port, bad)


async def test_changed_certificate_files_are_loaded_while_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.02)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(files: tuple[bytes, bytes]) -> None:
        certificate.write_bytes(files[0])
        key.write_bytes(files[1])

    write(pair("one"))
    serving = ServingTls()
    files = TlsFiles(serving, certificate, key)
    files.load()
    following = asyncio.ensure_future(files.follow())
    async with echo(serving) as port:
        assert await served_name(port) == "one"
        certificate.write_bytes(b"half written")
        await asyncio.sleep(0.1)
        assert await served_name(port) == "one"
        certificate.unlink()
        await asyncio.sleep(0.1)
        write(pair("two"))
        async with asyncio.timeout(60):
            while await served_name(port) != "two":
                await asyncio.sleep(0.02)
    following.cancel()


def test_unusable_certificate_files_raise_start_failure(tmp_path: Path) -> None:
    files = TlsFiles(ServingTls(), tmp_path / "tls.crt", tmp_path / "tls.key")
    with pytest.raises(StartFailure, match=r"TLS files .*tls\.crt.*No such file") as caught:
        files.load()
    assert caught.value.status == 2
    (tmp_path / "tls.crt").write_text("x")
    (tmp_path / "tls.key").write_text("x")
    with pytest.raises(StartFailure, match="not a usable certificate"):
        files.load()
