"""Sessions of the page: a random id in a cookie stands for a token that was posted once.

The process keeps the token and never sends it back. A session ends after some hours, and with the process. Random ids
and the time are arguments. A bearer token in the header ``Authorization`` needs no session.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

LASTS_S: Final = 12 * 3600.0
_MAX_SESSIONS: Final = 256
_MAX_TOKEN: Final = 16 * 1024


class LoginBody(msgspec.Struct, frozen=True):
    token: str


class _Session(msgspec.Struct, frozen=True):
    token: str
    until_s: float


class Sessions:
    """``cookie``: its name. Cookies are not separate for the ports of a host, so the name contains the port."""

    def __init__(self, cookie: str, *, is_secure: bool) -> None:
        self.cookie: Final = cookie
        self._is_secure: Final = is_secure
        self._sessions: Final[OrderedDict[str, _Session]] = OrderedDict()

    def begin(self, session: str, token: str, now_s: float) -> str:
        """Returns the header ``Set-Cookie``."""
        while len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        self._sessions[session] = _Session(token, now_s + LASTS_S)
        return self._header(session, int(LASTS_S))

    def end(self, headers: Mapping[str, str]) -> str:
        """Returns the header ``Set-Cookie`` that removes the cookie."""
        self._sessions.pop(self._find_id(headers), None)
        return self._header("", 0)

    def find_token(self, headers: Mapping[str, str], now_s: float) -> str:
        """The token of a request: of its header, or of its session; empty if it has none."""
        scheme, _, token = (headers.get("authorization") or "").strip().partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        session = self._sessions.get(self._find_id(headers))
        return session.token if session is not None and session.until_s > now_s else ""

    def _find_id(self, headers: Mapping[str, str]) -> str:
        for part in (headers.get("cookie") or "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

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


def is_same(one: str, other: str) -> bool:
    """Compares secrets in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())
