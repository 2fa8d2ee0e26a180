"""Keeps the key that signs the tokens of service accounts: one file, made at the first start, for its owner only."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.apiserver.access.jwt import Key
from headgate.apiserver.tls.shell import make_folder, write_file


def signing_key(folder: Path) -> Key:
    """Raises ``ValueError`` for a file that holds something else."""
    path = folder / "sa.key"
    make_folder(folder)
    if path.exists():
        path.chmod(0o600)
        kept = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(kept, ec.EllipticCurvePrivateKey) or not isinstance(kept.curve, ec.SECP256R1):
            raise ValueError(f"{path} is not a key of the curve P-256; move it away to have one made")
        return Key(kept)
    private = ec.generate_private_key(ec.SECP256R1())
    data = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_file(path, data, 0o600)
    return Key(private)
