"""Parses HOST:PORT."""

from __future__ import annotations


def parse_address(option: str, text: str, example: str) -> tuple[str, int] | str:
    """Host and port, or a message. An empty host is 127.0.0.1; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5) or int(port) > 65535:
        return f"{option} {text!r} is not HOST:PORT; try {example}"
    return host.strip("[]") or "127.0.0.1", int(port)
