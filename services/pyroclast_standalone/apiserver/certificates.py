"""The identity of a data directory: CA, serving and admin certificates, the secret of service account tokens, a kubeconfig.

Separate because it is the one place that writes keys, all of them readable by the owner only.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import secrets
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Identity", "ensure", "write_kubeconfig"]

_YEARS: Final = 10
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES: Final = ("127.0.0.1", "::1", "10.0.0.1")
_ADMIN: Final = ("kubernetes-admin", "system:masters")


@dataclass(frozen=True, slots=True)
class Identity:
    """Files of a data directory that say who the server is and whom it trusts."""

    directory: Path

    @property
    def authority(self) -> Path:
        """Certificate of the CA."""
        return self.directory / "ca.crt"

    @property
    def serving(self) -> tuple[Path, Path]:
        """Certificate and key that the server shows."""
        return self.directory / "apiserver.crt", self.directory / "apiserver.key"

    @property
    def admin(self) -> tuple[Path, Path]:
        """Certificate and key of the administrator."""
        return self.directory / "admin.crt", self.directory / "admin.key"

    @property
    def token_key(self) -> Path:
        """Secret that signs the tokens of service accounts."""
        return self.directory / "service-accounts.key"


def ensure(directory: Path, now: dt.datetime) -> Identity:
    """The identity kept in `directory`; what is missing is made."""
    identity = Identity(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = (identity.authority, *identity.serving, *identity.admin, identity.token_key)
    if all(file.exists() for file in files):
        return identity
    directory.chmod(0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("pyroclast-ca", "", key=authority_key, issuer=None, issuer_key=authority_key, now=now)
    _write(identity.authority, authority.public_bytes(serialization.Encoding.PEM))
    _write(directory / "ca.key", _pem(authority_key))
    for (certificate_file, key_file), (name, organization) in (
        (identity.serving, ("kube-apiserver", "")),
        (identity.admin, _ADMIN),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, organization, key=key, issuer=authority, issuer_key=authority_key, now=now)
        _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        _write(key_file, _pem(key))
    _write(identity.token_key, secrets.token_hex(32).encode())
    return identity


def _certificate(
    name: str,
    organization: str,
    *,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
) -> x509.Certificate:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if issuer is None:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        return builder.add_extension(usage, critical=True).sign(issuer_key, hashes.SHA256())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if organization else ExtendedKeyUsageOID.SERVER_AUTH
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if not organization:
        names: list[x509.GeneralName] = [x509.DNSName(each) for each in _NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in _ADDRESSES]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    """Replace `path` at once, readable by the owner only."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def write_kubeconfig(path: Path, url: str, identity: Identity) -> None:
    """Write the administrator's kubeconfig for the server at `url`; it holds everything it needs."""
    certificate, key = identity.admin
    encoded = {
        "certificate-authority-data": identity.authority,
        "client-certificate-data": certificate,
        "client-key-data": key,
    }
    data = {name: b64encode(file.read_bytes()).decode() for name, file in encoded.items()}
    cluster = {"server": url, "certificate-authority-data": data.pop("certificate-authority-data")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "pyroclast", "cluster": cluster}],
        "users": [{"name": "kubernetes-admin", "user": data}],
        "contexts": [{"name": "pyroclast", "context": {"cluster": "pyroclast", "user": "kubernetes-admin"}}],
        "current-context": "pyroclast",
    }
    _write(path, (json.dumps(document, indent=2) + "\n").encode())
