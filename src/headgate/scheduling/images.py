"""Container images on nodes, found by name: how large, and on which nodes.

An image has the size that the first node reported; it is forgotten with the last node that has it. ``version`` moves
with every change, because the worth of an image depends on how many nodes have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.scheduling.node import Image


class ImageState:
    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: set[int] = set()


class ImageIndex:
    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self._of_row: dict[int, tuple[Image, ...]] = {}
        self.version = 0

    def find(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def set(self, row: int, images: Sequence[Image]) -> None:
        new = tuple(images)
        if self._of_row.get(row, ()) == new:
            return
        self.remove(row)
        self.version += 1
        self._of_row[row] = new
        for image in new:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def remove(self, row: int) -> None:
        for image in self._of_row.pop(row, ()):
            self.version += 1
            for name in image.names:
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]
