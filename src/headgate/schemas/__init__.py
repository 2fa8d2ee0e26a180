"""The generated schema tables, as package data.

``tools/generate_schemas.py`` writes ``tables.json`` and ``protobuf.json``; they are not edited by hand. Only ``cli``
reads them. It passes the bytes to :meth:`headgate.kube.schema.Schemas.load` and
:meth:`headgate.apimachinery.protobuf.MessageDecoder.load`, and passes the results to the packages that need them.
"""

from __future__ import annotations

from importlib import resources


def read() -> bytes:
    """The committed tables, unparsed."""
    return resources.files(__name__).joinpath("tables.json").read_bytes()


def read_numbers() -> bytes:
    """The committed field numbers of protobuf, unparsed."""
    return resources.files(__name__).joinpath("protobuf.json").read_bytes()
