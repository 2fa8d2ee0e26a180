"""The certificates of the webhooks in their Secret: a CA, and the serving certificate of all replicas.

Pure except for the generation of keys. ``ensure_certificates`` returns what the Secret should contain: its present
content, if that is still valid. When the CA changes, the old one stays in the bundle until it expires, so that an API
server trusts both while replicas change over. ``registrar.py`` writes the Secret.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from headgate.http.certificates import (
    CertificateKeyPair,
    is_usable_authority,
    is_usable_server_pair,
    make_authority,
    make_server_certificate,
    names_of,
)
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

TYPE: Final = "kubernetes.io/tls"
_AUTHORITY: Final = "headgate-webhooks-ca"
_SUBJECT: Final = "headgate-webhooks"
"""It differs from the subject of the CA: a certificate with equal issuer and subject counts as self-signed."""
_MAX_OTHER_NAMES: Final = 20
_BUNDLE, _AUTHORITY_KEY, _SERVER, _SERVER_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class WebhookCertificates(msgspec.Struct, frozen=True):
    """``bundle``: the trusted CAs, the current one first. ``server``: the serving certificate."""

    bundle: bytes
    authority_key: bytes
    server: CertificateKeyPair

    def data(self) -> dict[str, str]:
        """The ``data`` of the Secret."""
        content = {
            _BUNDLE: self.bundle,
            _AUTHORITY_KEY: self.authority_key,
            _SERVER: self.server.certificate,
            _SERVER_KEY: self.server.key,
        }
        return {name: base64.b64encode(value).decode() for name, value in content.items()}


def ensure_certificates(
    data: Mapping[str, Any], target: WebhookTarget, now: datetime.datetime, in_use: WebhookCertificates | None = None
) -> WebhookCertificates:
    """The certificates to use: those in ``data``, the content of the Secret, if they are valid. ``in_use``: those that
    this server uses now; their CAs stay trusted even if the Secret has lost them."""
    bundle, key = _read(data, _BUNDLE), _read(data, _AUTHORITY_KEY)
    authorities = _authorities(bundle)
    authority = CertificateKeyPair(authorities[0] if authorities else b"", key)
    trusted = [*authorities, *(_authorities(in_use.bundle) if in_use else ())]
    if not is_usable_authority(authority, now):
        authority = make_authority(_AUTHORITY, now)
    server = CertificateKeyPair(_read(data, _SERVER), _read(data, _SERVER_KEY))
    if not is_usable_server_pair(server, authority.certificate, target.name, now):
        server = make_server_certificate(authority, _SUBJECT, _all_names(server.certificate, target), now)
    elif trusted == authorities and trusted[:1] == [authority.certificate]:
        return WebhookCertificates(bundle, key, server)
    others = [each for each in dict.fromkeys(trusted) if each != authority.certificate and not _has_expired(each, now)]
    return WebhookCertificates(b"".join((authority.certificate, *others)), authority.key, server)


def _all_names(certificate: bytes, target: WebhookTarget) -> tuple[str, ...]:
    """The names of this target, and those of the certificate before: replicas with another target may share it."""
    before = names_of(certificate)[:_MAX_OTHER_NAMES]
    return tuple(dict.fromkeys((*target.names, *before)))


def _authorities(bundle: bytes) -> list[bytes]:
    try:
        return [each.public_bytes(Encoding.PEM) for each in x509.load_pem_x509_certificates(bundle)]
    except ValueError:
        return []


def _has_expired(certificate: bytes, now: datetime.datetime) -> bool:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc <= now


def _read(data: Mapping[str, Any], name: str) -> bytes:
    value = data.get(name)
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except binascii.Error:
        return b""
