"""The report of one conversion: complaints about fields, the first error, and where in the document they are.

``decoding.py`` walks the value and writes here. The texts are those of Go's strict JSON decoder, which clients know.
A path is a chain of pairs ending in None (the innermost key first), unrolled only to word a complaint.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.errors import quote
from headgate.kube.json_text import MAX_COMPLAINTS
from headgate.kube.schema import Schemas, Type

Path = tuple[Any, str | int] | None

ABSENT: Final = object()
"""What reading a value gives when there is nothing to keep."""


class Reading:
    """What one conversion has to say besides its result.

    As in Go the first value of a wrong type is remembered and reading goes on, while a value that a type's own
    parser refuses ends it at once: :class:`headgate.kube.scalars.Refused`.
    """

    __slots__ = ("_root", "_schemas", "complaints", "error")

    def __init__(self, schemas: Schemas, root: str) -> None:
        self._schemas = schemas
        self._root = root
        self.complaints: list[str] = []
        self.error: str | None = None

    def muted(self, root: str = "") -> Reading:
        """For reading again what was read before, or what nobody complains of."""
        return Reading(self._schemas, root or self._root)

    def complain(self, word: str, path: Path, key: str) -> None:
        text = f"{word} field {quote(_dotted((path, key)))}"
        if len(self.complaints) < MAX_COMPLAINTS and text not in self.complaints:
            self.complaints.append(text)

    def fail(self, text: str) -> Any:
        if self.error is None:
            self.error = text
        return ABSENT

    def mismatch(self, path: Path, found: str, go_type: str) -> str:
        return f"json: cannot unmarshal {found} into {self._place(path)} of type {go_type}"

    def _place(self, path: Path) -> str:
        """Where ``path`` is, as Go names it: the innermost struct and the fields on the way, no indexes, no keys."""
        here, struct, names = Type("struct", ref=self._root), "", []
        for key in _keys(path):
            if here.kind == "struct":
                field = self._schemas.fields[here.ref][str(key)]
                struct = here.ref.rpartition(".")[2]
                names += [field.embedded, field.name] if field.embedded else [field.name]
                here = field.type
            elif here.items is not None:
                here = here.items
        return f"Go struct field {struct}.{'.'.join(names)}" if names else "Go value"


def _keys(path: Path) -> list[str | int]:
    keys = []
    while path is not None:
        path, key = path
        keys.append(key)
    return keys[::-1]


def _dotted(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in _keys(path)).removeprefix(".")
