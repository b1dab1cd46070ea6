"""Keys and certificates of a real control plane: one CA, one certificate per program, the service account key."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates"]

_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")
_LIFETIME = timedelta(days=30)


class Certificates:
    """The folder `directory` with `ca.crt` and pairs `NAME.crt`, `NAME.key`; what is there already is kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        if not self.ca.exists():
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._write_key("ca", self._key)
            self.ca.write_bytes(self._sign(_subject("pyroclast-test-ca"), self._key.public_key(), None))
        key = serialization.load_pem_private_key(self.key_of("ca").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @property
    def ca(self) -> Path:
        return self._directory / "ca.crt"

    def key_of(self, name: str) -> Path:
        return self._directory / f"{name}.key"

    def certificate_of(self, name: str) -> Path:
        return self._directory / f"{name}.crt"

    def server(self, name: str, address: str = "127.0.0.1") -> None:
        """A pair for a server on loopback and at `address` that is also reached under the names of the kubernetes service."""
        self._pair(name, _subject(name), ExtendedKeyUsageOID.SERVER_AUTH, address)

    def client(self, name: str, user: str, groups: Sequence[str] = ()) -> None:
        """A pair with which the API server knows the caller as `user` in `groups`."""
        self._pair(name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def signing_key(self, name: str) -> None:
        """A key pair without a certificate: `NAME.key` signs, `NAME.pub` checks."""
        if self.key_of(name).exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (self._directory / f"{name}.pub").write_bytes(public)
        self._write_key(name, key)

    def _pair(self, name: str, subject: x509.Name, usage: x509.ObjectIdentifier, address: str = "") -> None:
        if self.certificate_of(name).exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        self._write_key(name, key)
        self.certificate_of(name).write_bytes(self._sign(subject, key.public_key(), usage, address))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> None:
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.key_of(name).touch(mode=0o600)
        self.key_of(name).write_bytes(pem)

    def _sign(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, usage: x509.ObjectIdentifier | None, address: str = ""
    ) -> bytes:
        """A certificate over `public`; without a usage that of the CA itself."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_subject("pyroclast-test-ca"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if usage is ExtendedKeyUsageOID.SERVER_AUTH:
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
            names += [x509.IPAddress(ipaddress.ip_address(each)) for each in sorted({*_SERVER_ADDRESSES, address})]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
