"""A certificate authority made for a test, and a server with a certificate of it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass
class Authority:
    """A CA that signs for names and addresses."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    name: x509.Name = field(default_factory=lambda: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")]))

    def __post_init__(self) -> None:
        self.pem, _ = self._sign(self.name, self.key, ca=True)

    def issue(self, name: str, key: Key | None = None) -> tuple[bytes, bytes]:
        """Return a certificate with that common name, and its key."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._sign(subject, key or ec.generate_private_key(ec.SECP256R1()), ca=False)

    def _sign(self, subject: x509.Name, key: Key, *, ca: bool) -> tuple[bytes, bytes]:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        pem = builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        form, how = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return pem, key.private_bytes(serialization.Encoding.PEM, form, how)

    def tls(self, tmp_path: Path, *, clients: bool = False) -> ssl.SSLContext:
        certificate, key = self.issue("localhost")
        (tmp_path / "server.pem").write_bytes(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        if clients:
            context.load_verify_locations(cadata=self.pem.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


@asynccontextmanager
async def serving(handler: Any, tls: ssl.SSLContext) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "localhost", 0, ssl_context=tls).start()
    try:
        yield f"https://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
