"""The generated schema tables, as package data.

``tables.json`` is written by ``tools/generate_schemas.py`` and is not edited by hand. Only ``cli`` calls :func:`read`
and hands the bytes to :meth:`headgate.kube.schema.Schemas.load`; the rooms that use schemas are given them.
"""

from __future__ import annotations

from importlib import resources


def read() -> bytes:
    """The committed tables, unparsed."""
    return resources.files(__name__).joinpath("tables.json").read_bytes()
