"""Certificates and keys of the embedded control plane: for its CA, server, administrator and nodes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pyroclast_standalone.apiserver.access.identity import Identity, write_private

_YEARS: Final = 10
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES: Final = ("127.0.0.1", "::1", "10.0.0.1")


def certificate(
    name: str,
    organization: str,
    *,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
) -> x509.Certificate:
    """Return a certificate: of a CA without an issuer, of a client with an organization, otherwise of a server."""
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
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
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


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as unencrypted PEM text."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


_ADMIN: Final = ("kubernetes-admin", "system:masters")


def make(identity: Identity) -> None:
    """Create all files of `identity`, for a directory that lacks some of them."""
    directory = identity.directory
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    now = dt.datetime.now(dt.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = certificate("pyroclast-ca", "", key=authority_key, issuer=None, issuer_key=authority_key, now=now)
    write_private(identity.authority, authority.public_bytes(serialization.Encoding.PEM))
    write_private(directory / "ca.key", pem(authority_key))
    for (certificate_file, key_file), (name, organization) in (
        (identity.serving, ("kube-apiserver", "")),
        (identity.admin, _ADMIN),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(name, organization, key=key, issuer=authority, issuer_key=authority_key, now=now)
        write_private(certificate_file, made.public_bytes(serialization.Encoding.PEM))
        write_private(key_file, pem(key))
    write_private(identity.token_secret, secrets.token_hex(32).encode())
