"""Writes the kubeconfig with which kubectl finds and trusts the embedded server."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Final

import yaml

from headgate.apiserver.io.certificate_files import FileProblem, make_private, read_file, write_file
from headgate.kube.serializer.yaml_decoder import decode_yaml

_log: Final = logging.getLogger(__name__)


def write_kubeconfig(path: Path, url: str, ca: bytes, token: str) -> None:
    """Readable by its owner only, and replaced atomically, because other programs may read it.

    A file with equal content is kept. Raises ``OSError``.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "headgate",
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()},
            }
        ],
        "users": [{"name": "headgate", "user": {"token": token}}],
        "contexts": [{"name": "headgate", "context": {"cluster": "headgate", "user": "headgate"}}],
        "current-context": "headgate",
    }
    text = yaml.safe_dump(config, sort_keys=False)
    found = _read(path)
    if found == text.encode():  # then the start needs no disk space
        make_private(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode(), 0o600)
    if found is not None and not _is_kubeconfig(found):
        _log.warning("%s was %s and was rewritten", path, "damaged" if found.strip() else "empty or unreadable")


def _read(path: Path) -> bytes | None:
    """The content; empty for an unreadable file, which is then replaced."""
    try:
        return read_file(path)
    except FileProblem:
        return b""


def _is_kubeconfig(data: bytes) -> bool:
    found = decode_yaml(data).value
    return isinstance(found, dict) and found.get("kind") == "Config"
