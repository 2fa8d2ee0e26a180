"""Writes the kubeconfig through which kubectl finds and trusts the embedded server."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, url: str, ca: bytes, token: str) -> None:
    """Readable by its owner only, and never half written: other programs may be reading it."""
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
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
