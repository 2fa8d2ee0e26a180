"""The generated schema tables, as package data.

``tables.json`` and ``protobuf.json`` are written by ``tools/generate_schemas.py`` and are not edited by hand. Only
``cli`` reads them and hands the bytes to :meth:`headgate.kube.schema.Schemas.load` and
:meth:`headgate.kube.protobuf.Messages.load`; the rooms that use them are given them.
"""

from __future__ import annotations

from importlib import resources


def read() -> bytes:
    """The committed tables, unparsed."""
    return resources.files(__name__).joinpath("tables.json").read_bytes()


def read_numbers() -> bytes:
    """The committed field numbers of protobuf, unparsed."""
    return resources.files(__name__).joinpath("protobuf.json").read_bytes()
