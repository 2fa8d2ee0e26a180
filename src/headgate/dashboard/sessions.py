"""Sessions of the page: an id in a cookie stands for a token that was posted once.

The process keeps the token and never sends it back. A session ends after some hours, and with the process. The id of
the operator's session is signed and names its end, so it is also valid for the next process with the same operator's
token: a page that is open while ``headgate up`` starts again goes on. Random ids and the time are arguments. A bearer
token in the header ``Authorization`` needs no session.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

LASTS_S: Final = 12 * 3600.0
_MAX_SESSIONS: Final = 256
_MAX_TOKEN: Final = 16 * 1024
_OPERATOR: Final = "operator"


class LoginBody(msgspec.Struct, frozen=True):
    token: str


class _Session(msgspec.Struct, frozen=True):
    token: str
    until_s: float


class Sessions:
    """``cookie``: its name. Cookies are not separate for the ports of a host, so the name contains the port.
    ``operator_token``: empty if no token stands for the operator."""

    def __init__(self, cookie: str, *, is_secure: bool, operator_token: str = "") -> None:
        self.cookie: Final = cookie
        self._is_secure: Final = is_secure
        self._operator_token: Final = operator_token
        self._sessions: Final[OrderedDict[str, _Session]] = OrderedDict()
        self._ended: Final[OrderedDict[str, None]] = OrderedDict()  # ids of the operator's sessions

    def begin(self, session: str, token: str, now_s: float) -> str:
        """Returns the header ``Set-Cookie``. ``session``: a random id."""
        if self._operator_token and is_same(token, self._operator_token):
            return self._header(self._sign(f"{_OPERATOR}.{int(now_s + LASTS_S)}.{session}"), int(LASTS_S))
        while len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        self._sessions[session] = _Session(token, now_s + LASTS_S)
        return self._header(session, int(LASTS_S))

    def end(self, headers: Mapping[str, str]) -> str:
        """Returns the header ``Set-Cookie`` that removes the cookie."""
        found = self._find_id(headers)
        if self._sessions.pop(found, None) is None and self._is_signed(found):
            self._ended[found] = None
            while len(self._ended) > _MAX_SESSIONS:
                self._ended.popitem(last=False)
        return self._header("", 0)

    def find_token(self, headers: Mapping[str, str], now_s: float) -> str:
        """The token of a request: of its header, or of its session; empty if it has none."""
        scheme, _, token = (headers.get("authorization") or "").strip().partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        found = self._find_id(headers)
        if self._is_signed(found) and found not in self._ended and int(found.split(".")[1]) > now_s:
            return self._operator_token
        session = self._sessions.get(found)
        return session.token if session is not None and session.until_s > now_s else ""

    def _find_id(self, headers: Mapping[str, str]) -> str:
        for part in (headers.get("cookie") or "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    def _sign(self, text: str) -> str:
        key = self._operator_token.encode()
        return f"{text}.{hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"

    def _is_signed(self, found: str) -> bool:
        text = found.rpartition(".")[0]
        return bool(self._operator_token) and bool(text) and is_same(found, self._sign(text))

    def _header(self, value: str, max_age_s: int) -> str:
        secure = "; Secure" if self._is_secure else ""
        return f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_s}{secure}"


def read_login(body: bytes) -> str:
    """The token of a login; empty if the body is not a login."""
    try:
        token = msgspec.json.decode(body, type=LoginBody).token.strip()
    except msgspec.DecodeError:
        return ""
    return token if len(token) <= _MAX_TOKEN else ""


def operator_token(secret: str) -> str:
    """The operator's token that follows from a secret, from which nothing about the secret follows."""
    return hmac.new(secret.encode(), b"headgate: the operator of the page", hashlib.sha256).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Compares secrets in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())
