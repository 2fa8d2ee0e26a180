"""JSON Patch (RFC 6902), with the liberties that Kubernetes' API server takes.

It is laxer than the RFC in places that clients have come to use: ``replace`` on a missing key of an object adds it,
``test`` of a missing value against ``null`` succeeds, negative indexes count from the end, and whatever stands before
the first ``/`` of a path is ignored. Every failure to apply is one and the same 422; what exactly failed stands beside
it, in the words of the library that the API server uses. The document is left alone: along the way to each change its
containers are copied, the rest is shared. Objects that were opened on the way have their keys sorted in the result, all
others keep their order: warnings about unknown fields come in that order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from headgate.apimachinery.patch.go_text import json_word
from headgate.apimachinery.patch.result import PatchError, PatchResult, malformed, rejected
from headgate.kube.field_errors import quote
from headgate.kube.serializer.json_syntax import MAX_DEPTH

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_KNOWN: Final = ("op", "path", "from", "value")
_INDEX: Final = re.compile("[+-]?[0-9]{1,18}")
_ABSENT: Final = object()
_MISSING: Final = "missing value"
_TOO_DEEP: Final = "exceeded max depth"

Operation = dict[str, Any]
Container = dict[str, Any] | list[Any]


class _Stop(Exception):
    """An operation does not apply, and why; never leaves this module."""


class _NoPath(_Stop):
    """There is nothing that could hold the value at a path."""


def apply_json_patch(document: Any, operations: Any, *, checked: bool = True) -> PatchResult | PatchError:
    """``checked`` is off when the client asked for ``fieldValidation=Ignore``: then only the list form is checked."""
    operations = [] if operations is None else operations
    problem, messages = _check(operations, checked)
    if problem is not None:
        return problem
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        return PatchError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")
    work = _Work(document)
    try:
        for operation in operations:
            _OPERATIONS.get((operation or {}).get("op"), _unknown)(work, operation or {})
    except _Stop as problem:
        return rejected(str(problem))
    except RecursionError:
        return rejected(_TOO_DEEP)
    if work.steps > MAX_DEPTH and _is_deeper_than(MAX_DEPTH, work.root):
        return rejected(_TOO_DEEP)
    work.close()
    return PatchResult(work.root, messages)


def _check(operations: Any, checked: bool) -> tuple[PatchError | None, tuple[str, ...]]:
    target = "[]handlers.jsonPatchOp" if checked else "jsonpatch.Patch"
    prefix = "error decoding patch: " if checked else ""
    if not isinstance(operations, list):
        return malformed(f"{prefix}json: cannot unmarshal {json_word(operations)} into Go value of type {target}"), ()
    messages = []
    element = "handlers.jsonPatchOp" if checked else "jsonpatch.Operation"
    for i, operation in enumerate(operations):
        if operation is None:
            continue
        if not isinstance(operation, dict):
            word = json_word(operation)
            return malformed(f"{prefix}json: cannot unmarshal {word} into Go value of type {element}"), ()
        if not checked:
            continue
        for field in ("op", "path", "from"):
            if not isinstance(operation.get(field, ""), str | None):
                word = json_word(operation[field])
                text = f"json: cannot unmarshal {word} into Go struct field jsonPatchOp.{field} of type string"
                return malformed(prefix + text), ()
        messages += [f'json patch unknown field "[{i}].{name}"' for name in operation if name not in _KNOWN]
    return None, tuple(messages)


class _Work:
    """The document under way. ``owned`` holds the containers made for this patch: only those are changed in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._owned: dict[int, Container] = {}
        self.copied_bytes = 0
        self.steps = 0  # no less than the levels that this patch can have added

    def own(self, container: Any) -> Container:
        if id(container) in self._owned:
            return self._owned[id(container)]
        if isinstance(container, dict):
            copy: Container = dict(container)
        elif isinstance(container, list):
            copy = list(container)
        else:
            raise _NoPath
        self._owned[id(copy)] = copy
        return copy

    def close(self) -> None:
        for container in self._owned.values():
            _sort(container)

    def disown(self, value: Any) -> None:
        """A value that got a second place in the document: whoever changes one of them copies it first."""
        if id(value) in self._owned:
            _sort(self._owned.pop(id(value)))
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for child in children:
            if isinstance(child, dict | list):
                self.disown(child)

    def open(self, path: str) -> tuple[Container, str]:
        """The container that holds the value at ``path``, and its key there: every container on the way is ours."""
        parts = _split(path)
        self.steps += len(parts)
        holder = self.root = self.own(self.root)
        for part in parts[:-1]:
            child = self.own(_step(holder, part))
            if isinstance(holder, dict):
                holder[part] = child
            else:
                holder[_index(holder, part)] = child
            holder = child
        return holder, parts[-1]


def _is_deeper_than(limit: int, value: Any) -> bool:
    """Operations can nest what they add in what they added; nothing behind us expects more depth than a body has."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _split(path: str) -> list[str]:
    parts = path.split("/")
    if len(parts) < 2:
        raise _NoPath
    if "~" not in path:
        return parts[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]


def _sort(container: Container) -> None:
    if isinstance(container, dict):
        items = {key: container[key] for key in sorted(container)}
        container.clear()
        container.update(items)


def _index(items: list[Any], key: str, *, size: int | None = None) -> int:
    """``size`` is how many places there are: one more than items when a new one goes in."""
    if _INDEX.fullmatch(key) is None:
        raise _Stop(f"strconv.Atoi: parsing {quote(key)}: invalid syntax")
    places = len(items) if size is None else size
    index = int(key)
    if not -places <= index < places:
        raise _Stop(f"Unable to access invalid index: {index}: invalid index referenced")
    return index if index >= 0 else index + places


def _step(holder: Container, key: str) -> Any:
    """One step on the way to a value; if it fails, the way is wrong, not the value."""
    try:
        return _get(holder, key)
    except _Stop as problem:
        raise _NoPath from problem


def _get(holder: Container, key: str) -> Any:
    """A key that an object lacks has the value ``null``; an index that a list lacks is an error."""
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[_index(holder, key)]


def _put(holder: Container, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    elif _INDEX.fullmatch(key) is None:
        problem = f"strconv.Atoi: parsing {quote(key)}: invalid syntax"
        raise _Stop(f"value was not a proper array index: '{key}': {problem}")
    else:
        holder.insert(_index(holder, key, size=len(holder) + 1), value)


def _take(holder: Container, key: str) -> Any:
    if isinstance(holder, dict):
        if key not in holder:
            raise _Stop(f"Unable to remove nonexistent key: {key}: {_MISSING}")
        return holder.pop(key)
    return holder.pop(_index(holder, key))


def _text(operation: Operation, field: str) -> str:
    text = operation.get(field)
    if isinstance(text, str):
        return text
    op = operation["op"]
    comma = "," if field == "from" else ""
    inner = _MISSING if op in ("add", "remove") else f"operation{comma} missing {field} field: {_MISSING}"
    raise _Stop(f"{op} operation failed to decode {field}: {inner}")


@contextmanager
def _worded(no_path: str, otherwise: str) -> Iterator[None]:
    """Says what failed inside: the way to the value, or the value."""
    try:
        yield
    except _NoPath:
        raise _Stop(f"{no_path}: {_MISSING}") from None
    except _Stop as problem:
        raise _Stop(f"{otherwise}: {problem}") from None


def _unknown(work: _Work, operation: Operation) -> None:
    op = operation.get("op")
    raise _Stop(f"Unexpected kind: {op if isinstance(op, str) else 'unknown'}")


def _add(work: _Work, operation: Operation) -> None:
    path = _text(operation, "path")
    with _worded(f'add operation does not apply: doc is missing path: "{path}"', f"error in add for path: '{path}'"):
        _put(*work.open(path), operation.get("value"))


def _remove(work: _Work, operation: Operation) -> None:
    path = _text(operation, "path")
    no_path = f'remove operation does not apply: doc is missing path: "{path}"'
    with _worded(no_path, f"error in remove for path: '{path}'"):
        _take(*work.open(path))


def _replace(work: _Work, operation: Operation) -> None:
    path = _text(operation, "path")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise _Stop("replace operation value must be object or array")
        work.root = value
        return
    with _worded(f"replace operation does not apply: doc is missing path: {path}", ""):
        holder, key = work.open(path)
    if isinstance(holder, dict):
        holder[key] = value
        return
    try:
        holder[_index(holder, key)] = value
    except _Stop:
        raise _Stop(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None


def _move(work: _Work, operation: Operation) -> None:
    origin = _text(operation, "from")
    no_path = f"move operation does not apply: doc is missing from path: {origin}"
    with _worded(no_path, f"error in move for path: '{origin.rpartition('/')[2]}'"):
        value = _take(*work.open(origin))
    path = _text(operation, "path")
    no_path = f"move operation does not apply: doc is missing destination path: {path}"
    with _worded(no_path, f"error in move for path: '{path}'"):
        _put(*work.open(path), value)


def _copy(work: _Work, operation: Operation) -> None:
    origin = _text(operation, "from")
    no_path = f"copy operation does not apply: doc is missing from path: {origin}"
    with _worded(no_path, f"error in copy for from: '{origin}'"):
        value = _get(*work.open(origin))
    work.copied_bytes += len(msgspec.json.encode(value))
    if work.copied_bytes > MAX_COPIED_BYTES:
        size = f"the accumulated size increase of copy is {work.copied_bytes}"
        raise _Stop(f"Unable to complete the copy, {size}, exceeding the limit {MAX_COPIED_BYTES}")
    if isinstance(value, dict | list):
        work.steps += MAX_DEPTH
        work.disown(value)
    path = _text(operation, "path")
    no_path = f"copy operation does not apply: doc is missing destination path: {path}"
    with _worded(no_path, "error while adding value during copy"):
        _put(*work.open(path), value)


def _test(work: _Work, operation: Operation) -> None:
    path = _text(operation, "path")
    expected = operation.get("value", _ABSENT)
    no_path = f"test operation does not apply: is missing path: {path}"
    with _worded(no_path, f"error in test for path: '{path}'"):
        actual = work.root if path == "" else _get(*work.open(path))
    if actual is None and expected is _ABSENT:
        return
    if not is_same(actual, expected):
        raise _Stop(f"testing value {path} failed: test failed")


_OPERATIONS: Final[dict[Any, Callable[[_Work, Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def is_same(one: Any, other: Any) -> bool:
    """Equal as JSON text: ``1`` is not ``1.0``, and ``true`` is not ``1``."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        return all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool) is not isinstance(other, bool) or isinstance(one, float) is not isinstance(other, float):
        return False
    return bool(one == other)
