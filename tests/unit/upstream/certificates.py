"""A certificate authority of the tests, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    certificate: str
    key: str


class Authority:
    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(name, self._key.public_key(), authority=True)
        self.file = self._write(f"{name}.pem", self._certificate.public_bytes(Encoding.PEM))

    def issue(self, host: str, *, password: bytes | None = None) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(host, key.public_key(), authority=False)
        sealed = BestAvailableEncryption(password) if password else NoEncryption()
        name = f"{self._name}-{host}"
        return Pair(
            self._write(f"{name}.pem", certificate.public_bytes(Encoding.PEM)),
            self._write(f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)),
        )

    def _signed(self, host: str, key: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, data: bytes) -> str:
        path = self._directory / name
        path.write_bytes(data)
        return str(path)
