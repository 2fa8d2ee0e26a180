"""Whether the API server is reached, as views for people say it. ``io/observed_transport.py`` finds it out."""

from __future__ import annotations

import msgspec


class Connection(msgspec.Struct, frozen=True):
    """``problem``: why the API server is not reached, since ``since_s``; empty while it is."""

    problem: str = ""
    since_s: float = 0.0
