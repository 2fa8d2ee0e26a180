"""Keeps the key that signs service account tokens: one file, created at the first start, readable by its owner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.apiserver.authn.jwt import SigningKey
from headgate.apiserver.io.certificate_files import make_folder, make_private, read_required, unusable_file, write_file

_KEY_DEPENDENTS: Final = "the tokens of service accounts"


def ensure_signing_key(folder: Path) -> SigningKey:
    """The key in the folder, created if there is none. Raises ``FileProblem`` for an invalid file."""
    path = folder / "sa.key"
    make_folder(folder)
    if os.path.lexists(path):
        key = read_signing_key(folder)
        make_private(path)
        return key
    private = ec.generate_private_key(ec.SECP256R1())
    data = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_file(path, data, 0o600)
    return SigningKey(private)


def read_signing_key(folder: Path) -> SigningKey:
    """The existing key. Raises ``FileProblem`` if it cannot be used."""
    path = folder / "sa.key"
    data = read_required(path, _KEY_DEPENDENTS)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise unusable_file(path, "holds no private key (PEM) that can be read", _KEY_DEPENDENTS) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise unusable_file(path, "is not a key of the curve P-256", _KEY_DEPENDENTS)
    return SigningKey(key)
