"""JSON Patch (RFC 6902), with the deviations of Kubernetes' API server.

It accepts more than the RFC, as clients expect: ``replace`` of a missing key adds it, ``test`` of a missing value
against ``null`` succeeds, negative indexes count from the end, and text before the first ``/`` of a path is ignored.
If an operation cannot be applied, the response is always the same 422; ``PatchError.detail`` has the message of the
library that the API server uses.

The *document*, which is the object that is patched, is not changed: the objects and lists on the path of a change are
copied, and the rest is shared. Copied objects get sorted keys, and all others keep their order, because the warnings
about unknown fields are in that order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from headgate.apimachinery.patch.go_text import json_type_name
from headgate.apimachinery.patch.result import PatchError, PatchResult, malformed, rejected
from headgate.kube.field_errors import quote
from headgate.kube.serializer.json_syntax import MAX_DEPTH

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_FIELDS: Final = ("op", "path", "from", "value")
_INDEX: Final = re.compile("[+-]?[0-9]{1,18}")
_ABSENT: Final = object()
_MISSING: Final = "missing value"
_TOO_DEEP: Final = "exceeded max depth"

Operation = dict[str, Any]
Container = dict[str, Any] | list[Any]


class _OperationError(Exception):
    """An operation does not apply. Raised and caught in this module."""


class _NoPath(_OperationError):
    """The parent of a path does not exist."""


def apply_json_patch(document: Any, operations: Any, *, strict_decoding: bool = True) -> PatchResult | PatchError:
    """``strict_decoding`` is false for ``fieldValidation=Ignore``: then operations are not checked before they are
    applied."""
    operations = [] if operations is None else operations
    problem, messages = _check(operations, strict_decoding)
    if problem is not None:
        return problem
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        return PatchError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")
    patched = _PatchedDocument(document)
    try:
        for operation in operations:
            _OPERATIONS.get((operation or {}).get("op"), _unknown)(patched, operation or {})
    except _OperationError as problem:
        return rejected(str(problem))
    except RecursionError:
        return rejected(_TOO_DEEP)
    if patched.steps > MAX_DEPTH and _is_deeper_than(MAX_DEPTH, patched.root):
        return rejected(_TOO_DEEP)
    patched.sort_keys()
    return PatchResult(patched.root, messages)


def _check(operations: Any, strict_decoding: bool) -> tuple[PatchError | None, tuple[str, ...]]:
    target = "[]handlers.jsonPatchOp" if strict_decoding else "jsonpatch.Patch"
    prefix = "error decoding patch: " if strict_decoding else ""
    if not isinstance(operations, list):
        return malformed(
            f"{prefix}json: cannot unmarshal {json_type_name(operations)} into Go value of type {target}"
        ), ()
    messages = []
    element = "handlers.jsonPatchOp" if strict_decoding else "jsonpatch.Operation"
    for i, operation in enumerate(operations):
        if operation is None:
            continue
        if not isinstance(operation, dict):
            type_name = json_type_name(operation)
            return malformed(f"{prefix}json: cannot unmarshal {type_name} into Go value of type {element}"), ()
        if not strict_decoding:
            continue
        for field in ("op", "path", "from"):
            if not isinstance(operation.get(field, ""), str | None):
                type_name = json_type_name(operation[field])
                text = f"json: cannot unmarshal {type_name} into Go struct field jsonPatchOp.{field} of type string"
                return malformed(prefix + text), ()
        messages += [f'json patch unknown field "[{i}].{name}"' for name in operation if name not in _FIELDS]
    return None, tuple(messages)


class _PatchedDocument:
    """The document with the operations so far. ``_owned`` has the copied containers; only they are changed in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._owned: dict[int, Container] = {}
        self.copied_bytes = 0
        self.steps = 0  # this patch has added at most so many levels of nesting

    def owned_copy(self, container: Any) -> Container:
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

    def sort_keys(self) -> None:
        for container in self._owned.values():
            _sort(container)

    def share(self, value: Any) -> None:
        """Marks a value that occurs twice in the document now: it must be copied before it is changed."""
        if id(value) in self._owned:
            _sort(self._owned.pop(id(value)))
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for child in children:
            if isinstance(child, dict | list):
                self.share(child)

    def parent_of(self, path: str) -> tuple[Container, str]:
        """The container of the value at ``path``, and its key. All containers on the path are copied."""
        parts = _split(path)
        self.steps += len(parts)
        parent = self.root = self.owned_copy(self.root)
        for part in parts[:-1]:
            child = self.owned_copy(_step(parent, part))
            if isinstance(parent, dict):
                parent[part] = child
            else:
                parent[_index(parent, part)] = child
            parent = child
        return parent, parts[-1]


def _is_deeper_than(limit: int, value: Any) -> bool:
    """Whether ``value`` is nested more deeply than ``limit``.

    Operations can nest values, and later steps are recursive: they accept only as many levels as a body may have.
    """
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
    """``size`` is the number of valid indexes: one more than items for an insertion."""
    if _INDEX.fullmatch(key) is None:
        raise _OperationError(f"strconv.Atoi: parsing {quote(key)}: invalid syntax")
    count = len(items) if size is None else size
    index = int(key)
    if not -count <= index < count:
        raise _OperationError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index if index >= 0 else index + count


def _step(parent: Container, key: str) -> Any:
    """One step of a path. An error means that the path does not exist."""
    try:
        return _get(parent, key)
    except _OperationError as problem:
        raise _NoPath from problem


def _get(parent: Container, key: str) -> Any:
    """A missing key of an object has the value ``null``; a missing index of a list is an error."""
    if isinstance(parent, dict):
        return parent.get(key)
    return parent[_index(parent, key)]


def _put(parent: Container, key: str, value: Any) -> None:
    if isinstance(parent, dict):
        parent[key] = value
    elif key == "-":
        parent.append(value)
    elif _INDEX.fullmatch(key) is None:
        problem = f"strconv.Atoi: parsing {quote(key)}: invalid syntax"
        raise _OperationError(f"value was not a proper array index: '{key}': {problem}")
    else:
        parent.insert(_index(parent, key, size=len(parent) + 1), value)


def _pop(parent: Container, key: str) -> Any:
    if isinstance(parent, dict):
        if key not in parent:
            raise _OperationError(f"Unable to remove nonexistent key: {key}: {_MISSING}")
        return parent.pop(key)
    return parent.pop(_index(parent, key))


def _text(operation: Operation, field: str) -> str:
    text = operation.get(field)
    if isinstance(text, str):
        return text
    op = operation["op"]
    comma = "," if field == "from" else ""
    inner = _MISSING if op in ("add", "remove") else f"operation{comma} missing {field} field: {_MISSING}"
    raise _OperationError(f"{op} operation failed to decode {field}: {inner}")


@contextmanager
def _explain_errors(no_path: str, error_prefix: str) -> Iterator[None]:
    """Replaces the text of an error: ``no_path`` if the path does not exist, otherwise with ``error_prefix``."""
    try:
        yield
    except _NoPath:
        raise _OperationError(f"{no_path}: {_MISSING}") from None
    except _OperationError as problem:
        raise _OperationError(f"{error_prefix}: {problem}") from None


def _unknown(patched: _PatchedDocument, operation: Operation) -> None:
    op = operation.get("op")
    raise _OperationError(f"Unexpected kind: {op if isinstance(op, str) else 'unknown'}")


def _add(patched: _PatchedDocument, operation: Operation) -> None:
    path = _text(operation, "path")
    with _explain_errors(
        f'add operation does not apply: doc is missing path: "{path}"', f"error in add for path: '{path}'"
    ):
        _put(*patched.parent_of(path), operation.get("value"))


def _remove(patched: _PatchedDocument, operation: Operation) -> None:
    path = _text(operation, "path")
    no_path = f'remove operation does not apply: doc is missing path: "{path}"'
    with _explain_errors(no_path, f"error in remove for path: '{path}'"):
        _pop(*patched.parent_of(path))


def _replace(patched: _PatchedDocument, operation: Operation) -> None:
    path = _text(operation, "path")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise _OperationError("replace operation value must be object or array")
        patched.root = value
        return
    with _explain_errors(f"replace operation does not apply: doc is missing path: {path}", ""):
        parent, key = patched.parent_of(path)
    if isinstance(parent, dict):
        parent[key] = value
        return
    try:
        parent[_index(parent, key)] = value
    except _OperationError:
        raise _OperationError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None


def _move(patched: _PatchedDocument, operation: Operation) -> None:
    source = _text(operation, "from")
    no_path = f"move operation does not apply: doc is missing from path: {source}"
    with _explain_errors(no_path, f"error in move for path: '{source.rpartition('/')[2]}'"):
        value = _pop(*patched.parent_of(source))
    path = _text(operation, "path")
    no_path = f"move operation does not apply: doc is missing destination path: {path}"
    with _explain_errors(no_path, f"error in move for path: '{path}'"):
        _put(*patched.parent_of(path), value)


def _copy(patched: _PatchedDocument, operation: Operation) -> None:
    source = _text(operation, "from")
    no_path = f"copy operation does not apply: doc is missing from path: {source}"
    with _explain_errors(no_path, f"error in copy for from: '{source}'"):
        value = _get(*patched.parent_of(source))
    patched.copied_bytes += len(msgspec.json.encode(value))
    if patched.copied_bytes > MAX_COPIED_BYTES:
        size = f"the accumulated size increase of copy is {patched.copied_bytes}"
        raise _OperationError(f"Unable to complete the copy, {size}, exceeding the limit {MAX_COPIED_BYTES}")
    if isinstance(value, dict | list):
        patched.steps += MAX_DEPTH
        patched.share(value)
    path = _text(operation, "path")
    no_path = f"copy operation does not apply: doc is missing destination path: {path}"
    with _explain_errors(no_path, "error while adding value during copy"):
        _put(*patched.parent_of(path), value)


def _test(patched: _PatchedDocument, operation: Operation) -> None:
    path = _text(operation, "path")
    expected = operation.get("value", _ABSENT)
    no_path = f"test operation does not apply: is missing path: {path}"
    with _explain_errors(no_path, f"error in test for path: '{path}'"):
        actual = patched.root if path == "" else _get(*patched.parent_of(path))
    if actual is None and expected is _ABSENT:
        return
    if not is_same(actual, expected):
        raise _OperationError(f"testing value {path} failed: test failed")


_OPERATIONS: Final[dict[Any, Callable[[_PatchedDocument, Operation], None]]] = {
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
