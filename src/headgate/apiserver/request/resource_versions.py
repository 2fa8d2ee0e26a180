"""Which revision a read requests: ``resourceVersion``, ``resourceVersionMatch`` and continue tokens.

The rules are those of the API concepts page of Kubernetes: unset means the newest, ``0`` means any, a number means "not
older than" unless the request asks for an exact match or the list is paged.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from typing import Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.kube import field_errors
from headgate.store import Revision

WAIT_S: Final = 3.0  # how long a read waits for a revision that is not committed yet
NEWEST: Final = Revision(-1)  # in a token: continue after the key at the newest revision
_TOKEN_VERSION: Final = "meta.k8s.io/v1"
_BAD_TOKEN: Final = "continue key is not valid"
_MAX_UINT64: Final = 2**64
_MAX_DIGITS: Final = 20  # Python refuses to read very long numbers


def revision_problem(text: str) -> str | None:
    """Why ``text`` is not a revision, in the words of kube-apiserver; ``None`` if it is valid or empty."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        return f"strconv.ParseUint: parsing {field_errors.quote(text)}: invalid syntax"
    digits = text.lstrip("0")
    if len(digits) > _MAX_DIGITS or int(digits or "0") >= _MAX_UINT64:
        return f"strconv.ParseUint: parsing {field_errors.quote(text)}: value out of range"
    return None


def is_object_revision(text: str) -> bool:
    """Whether ``text`` is a revision that an object could have."""
    return revision_problem(text) is None and bool(text.strip("0"))


def parse_revision(text: str) -> Revision | api_errors.StatusError:
    """A resourceVersion as a number; unset and ``0`` are both 0."""
    problem = revision_problem(text)
    if problem is not None:
        return api_errors.bad_request(f"resourceVersion: Invalid value: {field_errors.quote(text)}: {problem}")
    return Revision(int(text.lstrip("0") or "0"))


def invalid_for_list(problem: api_errors.StatusError) -> api_errors.StatusError:
    """The error of a list with an invalid revision (a get returns another one)."""
    return api_errors.bad_request(f"invalid resource version: {problem.message}")


class _Token(msgspec.Struct):
    """A continue token as JSON, with kube-apiserver's names: format version, revision, and the key to start at."""

    v: str = ""
    rv: int = 0
    start: str = ""


class ContinuePosition(msgspec.Struct, frozen=True):
    """Where a paged list continues: its revision, and the last key that was returned."""

    revision: Revision
    after: tuple[str, str]


def encode_token(kind: ServedKind, namespace: str, position: ContinuePosition) -> str:
    """The continue token: the revision, and the key that follows the last returned one, relative to the prefix of the
    list."""
    after_namespace, name = position.after
    key = f"{after_namespace}/{name}" if kind.namespaced and not namespace else name
    body = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": position.revision, "start": f"{key}\0"})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def decode_token(kind: ServedKind, namespace: str, text: str) -> ContinuePosition | api_errors.StatusError:
    try:
        if "=" in text:  # tokens carry no padding
            raise ValueError
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return _bad_token(f"{_BAD_TOKEN}: illegal base64 data at input byte {_first_bad_byte(text)}")
    try:
        token = msgspec.json.decode(data, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        return _bad_token(f"{_BAD_TOKEN}: {problem}")
    if token.v != _TOKEN_VERSION:
        return _bad_token(f"{_BAD_TOKEN}: server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        return _bad_token(f"{_BAD_TOKEN}: incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
    if not token.start:
        return _bad_token(f"{_BAD_TOKEN}: encoded start key empty (version {_TOKEN_VERSION})")
    rooted = token.start if token.start.startswith("/") else f"/{token.start}"
    if posixpath.normpath(rooted) != rooted:
        return _bad_token(f"{_BAD_TOKEN}: {token.start}")
    key = token.start.strip("/")
    exact = not key.endswith("\0")
    key = key.removesuffix("\0")
    if kind.namespaced and not namespace:
        in_namespace, _, name = key.partition("/")
    else:
        in_namespace, name = namespace, key
    # In a token of this server, "start" is the last returned key with a NUL. In other tokens it is the first key to
    # return, so the list continues after the text that sorts directly before that key.
    return ContinuePosition(Revision(token.rv), (in_namespace, _before(name) if exact else name))


def _before(name: str) -> str:
    """A text that sorts directly before ``name``: no name of an object is between the two."""
    return name[:-1] + chr(ord(name[-1]) - 1) + "\U0010ffff" if name else ""


def _first_bad_byte(text: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return next((index for index, char in enumerate(text) if char not in alphabet), len(text))


def _bad_token(text: str) -> api_errors.StatusError:
    return api_errors.bad_request(f"invalid continue token: {text}")
