"""Issues and reads X.509 certificates, and their Secret. Only this module imports `cryptography`, because that import is slow."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, assert_never

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pyroclast_admission.certificates.plan import Facts, Policy, Serving, Span, Step

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Material:
    """Certificates and keys in PEM. `authorities`: those that callers trust, newest first; `authority_key` is of the newest."""

    authorities: tuple[bytes, ...]
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def bundle(self) -> bytes:
        """The certificates of all trusted authorities, in PEM, one after another."""
        return b"".join(authority if authority.endswith(b"\n") else authority + b"\n" for authority in self.authorities)


def from_secret(secret: Mapping[str, Any]) -> Material | None:
    """Read the certificates and keys from a Secret. None when one of them is missing or is not base64."""
    data = secret.get("data")
    if not isinstance(data, dict):
        return None
    try:
        parts = {name: base64.b64decode(data[name], validate=True) for name in (CERTIFICATE, KEY, BUNDLE, AUTHORITY_KEY)}
    except (KeyError, TypeError, ValueError):  # the part is missing, is no text, or is no base64
        return None
    authorities = tuple(_PEM.findall(parts[BUNDLE]))
    return Material(authorities, parts[AUTHORITY_KEY], parts[CERTIFICATE], parts[KEY]) if authorities else None


def to_secret(material: Material) -> dict[str, str]:
    """Return the `data` of the Secret with these certificates and keys."""
    parts = {
        CERTIFICATE: material.certificate,
        KEY: material.key,
        BUNDLE: material.bundle,
        AUTHORITY_KEY: material.authority_key,
    }
    return {name: base64.b64encode(value).decode() for name, value in parts.items()}


CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from this long before now, so that a caller whose clock is behind accepts them."""

_ORGANIZATION = "pyroclast"

SigningKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
"""The types of key that an authority may have. Our own authorities have elliptic curve keys. An operator may store another type.
"""


def new_authority(now: datetime, validity: timedelta) -> tuple[bytes, bytes]:
    """Issue a self-signed authority that is valid for `validity`. Return the certificate and the key in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            # the time in the name distinguishes the authorities of a bundle
            x509.NameAttribute(NameOID.COMMON_NAME, f"pyroclast-admission-ca@{int(now.timestamp() * 1000)}"),
        ]
    )
    certificate = (
        _builder(name, name, key, now, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)


def new_serving(
    authority: bytes, authority_key: bytes, names: Sequence[str], now: datetime, validity: timedelta
) -> tuple[bytes, bytes]:
    """Issue a serving certificate for host names and IP addresses that does not outlive its authority. Return it and its key."""
    signer = x509.load_pem_x509_certificate(authority)
    signing_key = _signing_key(authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)])
    life = min(validity, signer.not_valid_after_utc - now)
    certificate = (
        _builder(subject, signer.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        .sign(
            signing_key, None if isinstance(signing_key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()
        )
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)


def inspect(material: Material) -> Facts | None:
    """Return the validity periods and names of the certificates; None when the material is unusable.

    Then a key does not match its certificate, no authority signed the serving certificate, or the newest one cannot sign.
    """
    try:
        authorities = [x509.load_pem_x509_certificate(authority) for authority in material.authorities]
        serving = x509.load_pem_x509_certificate(material.certificate)
        keys = [_signing_key(material.authority_key), serialization.load_pem_private_key(material.key, password=None)]
        if [_public(key.public_key()) for key in keys] != [_public(c.public_key()) for c in (authorities[0], serving)]:
            return None
        if not authorities[0].extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return None
        names = _names(serving)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound, x509.DuplicateExtension):
        return None
    signer = next((index for index, authority in enumerate(authorities) if _is_signed_by(serving, authority)), None)
    if signer is None:
        return None
    return Facts(tuple(_span(authority) for authority in authorities), Serving(_span(serving), signer, names))


def _signing_key(pem: bytes) -> SigningKey:
    """Read the private key of an authority. TypeError: a key of this type cannot sign serving certificates."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, SigningKey):
        raise TypeError(f"{type(key).__name__} is no key of an authority")
    return key


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + validity)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _public(key: object) -> bytes:
    encode = key.public_bytes  # type: ignore[attr-defined]  # every kind of public key has it
    encoded: bytes = encode(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _span(certificate: x509.Certificate) -> Span:
    return Span(certificate.not_valid_before_utc + CLOCK_SKEW, certificate.not_valid_after_utc)


MAX_AUTHORITIES = 3
"""Most authorities in a bundle: the new one, the one that signed the serving certificate, and one more for a rotation that begins
before another has ended.
"""


def carry_out(step: Step, material: Material | None, policy: Policy, now: datetime) -> Material:
    """Return the certificates and keys after `step`."""
    match step:
        case Step.START_OVER:
            return _start_over(policy, now)
        case Step.KEEP | Step.ADD_AUTHORITY | Step.ISSUE | Step.DROP_AUTHORITIES if material is None:
            raise ValueError(f"nothing is there to {step.value}")
        case Step.KEEP:
            return material
        case Step.ADD_AUTHORITY:
            authority, key = new_authority(now, policy.authority_validity)
            return Material((authority, *material.authorities)[:MAX_AUTHORITIES], key, material.certificate, material.key)
        case Step.ISSUE:
            return _with_serving(material.authorities, material.authority_key, policy, now)
        case Step.DROP_AUTHORITIES:
            return Material(material.authorities[:1], material.authority_key, material.certificate, material.key)
        case _:
            assert_never(step)


def _start_over(policy: Policy, now: datetime) -> Material:
    authority, key = new_authority(now, policy.authority_validity)
    return _with_serving((authority,), key, policy, now)


def _with_serving(authorities: tuple[bytes, ...], authority_key: bytes, policy: Policy, now: datetime) -> Material:
    certificate, key = new_serving(authorities[0], authority_key, sorted(policy.names), now, policy.validity)
    return Material(authorities, authority_key, certificate, key)
