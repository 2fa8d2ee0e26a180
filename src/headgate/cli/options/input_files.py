"""The bytes of a file that a command reads whole: configuration, snapshots, prices, kinds of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAX_BYTES: Final = 256 * 1024 * 1024


def read_input(file: Path, max_bytes: int = MAX_BYTES) -> bytes | str:
    """The content, or why it cannot be read."""
    try:
        with file.open("rb") as opened:
            content = opened.read(max_bytes + 1)
    except OSError as error:
        return f"{file}: {error.strerror}"
    return content if len(content) <= max_bytes else f"{file}: it has more than {max_bytes >> 20} MiB"
