"""Signed JSON Web Tokens (RFC 7515, ES256, compact form).

Signing is a function of key and claims: the nonce is derived from both (RFC 6979), so the same request at the same
moment gives the same token. ``service_account_tokens.py`` interprets the claims; ``apiserver/io/signing_key_file.py``
keeps the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

Claims = dict[str, Any]

ALGORITHM: Final = "ES256"
_HALF_BYTES: Final = 32
_SIGNING: Final = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
_VERIFYING: Final = ec.ECDSA(hashes.SHA256())
_encoder: Final = msgspec.json.Encoder(order="sorted")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes | None:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    # Only the canonical text is accepted: unused bits of the last character are zero, and there are no other bytes.
    return data if _encode(data) == text else None


def unverified(token: str) -> tuple[Claims, Claims] | None:
    """Header and claims of a token whose signature was not checked."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    found = []
    for part in parts[:2]:
        data = _decode(part)
        try:
            value = msgspec.json.decode(data or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        found.append(value)
    return found[0], found[1]


class SigningKey:
    """A private key of the curve P-256, and the id of its public key."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private: Final = private
        self._public: Final = private.public_key()
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id: Final = _encode(hashlib.sha256(der).digest())

    def sign(self, claims: Claims) -> str:
        header = _encode(_encoder.encode({"alg": ALGORITHM, "kid": self.key_id}))
        signed = f"{header}.{_encode(_encoder.encode(claims))}"
        r, s = decode_dss_signature(self._private.sign(signed.encode(), _SIGNING))
        return f"{signed}.{_encode(r.to_bytes(_HALF_BYTES) + s.to_bytes(_HALF_BYTES))}"

    def has_signed(self, token: str) -> bool:
        signed, _, signature = token.rpartition(".")
        data = _decode(signature)
        if data is None or len(data) != 2 * _HALF_BYTES:
            return False
        halves = (int.from_bytes(data[:_HALF_BYTES]), int.from_bytes(data[_HALF_BYTES:]))
        try:
            self._public.verify(encode_dss_signature(*halves), signed.encode(), _VERIFYING)
        except (InvalidSignature, ValueError):
            return False
        return True

    def public(self) -> dict[str, str]:
        """The public key as a JSON Web Key (RFC 7517)."""
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encode(numbers.x.to_bytes(_HALF_BYTES)),
            "y": _encode(numbers.y.to_bytes(_HALF_BYTES)),
        }
