"""TLS of a server connection, in memory: it decrypts and encrypts bytes, and reads the client's certificate.

asyncio's own TLS layer is not used: this one takes less time per request and lets ``http/server_protocol.py`` limit
handshakes and buffers. A client certificate is optional. One of an untrusted CA ends the handshake; an expired one is
reported, so that the API server responds with 401 as kube-apiserver does. ``apiserver/io/certificate_files.py`` has the
files.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from headgate.http.certificates import CertificateKeyPair
from headgate.http.peer import CertificateSubject

_NO_CHECK_TIME: Final = (
    0x200000  # X509_V_FLAG_NO_CHECK_TIME: the server reports an expired certificate after the handshake
)
_RECORD_BYTES: Final = 16 * 1024


class TLSFiles(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path
    client_authorities: tuple[Path, ...] = ()
    """The CAs whose client certificates are trusted."""


def bare_server_context() -> ssl.SSLContext:
    """A TLS context without a certificate: no handshake succeeds until a certificate is loaded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # Go's clients do not resume sessions by default
    return context


def key_pair_context(pair: CertificateKeyPair) -> ssl.SSLContext:
    """Raises ``ssl.SSLError`` for an invalid certificate or key, or if they do not belong together."""
    context = bare_server_context()
    with tempfile.NamedTemporaryFile() as file:  # OpenSSL needs a file; this one has mode 0600 and is deleted at once
        file.write(pair.key + b"\n" + pair.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def server_context(files: TLSFiles) -> ssl.SSLContext:
    context = bare_server_context()
    context.load_cert_chain(files.certificate, files.key)
    if files.client_authorities:
        for path in files.client_authorities:
            context.load_verify_locations(cafile=path)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    return context


class ClientCertificate(msgspec.Struct, frozen=True):
    peer: CertificateSubject | None
    """None if the certificate has no common name."""
    not_before_s: float
    not_after_s: float

    def is_valid_at(self, epoch_s: float) -> bool:
        return self.not_before_s <= epoch_s <= self.not_after_s


class TLSServerConnection:
    """The server's end of one TLS connection. ``decrypt`` raises ``ssl.SSLError`` if TLS fails."""

    __slots__ = ("_incoming", "_object", "_outgoing", "ended", "established")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False
        self.ended = False  # the client has sent close_notify

    def decrypt(self, data: bytes) -> bytes:
        """The plaintext that the client sent; ``to_send`` may then have bytes of the TLS protocol."""
        self._incoming.write(data)
        if not self.established:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.established = True
        parts: list[bytes] = []
        with contextlib.suppress(ssl.SSLWantReadError):
            while self._incoming.pending or self._object.pending():
                part = self._object.read(_RECORD_BYTES)
                if not part:
                    self.ended = True
                    break
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def encrypt(self, data: bytes | memoryview) -> bytes:
        self._object.write(data)
        return self._outgoing.read()

    def to_send(self) -> bytes:
        return self._outgoing.read() if self._outgoing.pending else b""

    def close_notify(self) -> bytes:
        """Announces the end, so that a truncated response is detected."""
        if self.established:
            with contextlib.suppress(ssl.SSLError):
                self._object.unwrap()
        return self.to_send()

    def client_certificate(self) -> ClientCertificate | None:
        certificate = self._object.getpeercert()
        if not certificate:
            return None
        raw = self._object.getpeercert(binary_form=True) or b""
        return ClientCertificate(
            _subject(certificate.get("subject", ()), hashlib.sha256(raw).hexdigest()),
            ssl.cert_time_to_seconds(str(certificate["notBefore"])),
            ssl.cert_time_to_seconds(str(certificate["notAfter"])),
        )


def _subject(subject: object, fingerprint: str) -> CertificateSubject | None:
    names: list[str] = []
    organizations: list[str] = []
    for relative_name in subject if isinstance(subject, tuple) else ():
        for key, value in relative_name:
            if key == "commonName":
                names.append(value)
            elif key == "organizationName":
                organizations.append(value)
    # If there are several common names, the last one counts, as in Go.
    return CertificateSubject(names[-1], tuple(organizations), fingerprint) if names and names[-1] else None
