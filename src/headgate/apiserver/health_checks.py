"""Health: ``/healthz``, ``/livez`` and ``/readyz``, each check below them, ``?verbose`` and ``?exclude``.

A check is a name and a function that returns a problem or nothing. Components register their checks with
:meth:`HealthChecks.add`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.apiserver.request import options
from headgate.apiserver.request.messages import ServerResponse
from headgate.kube.field_errors import quote

PATHS: Final = ("/healthz", "/livez", "/readyz")
_TEXT: Final = "text/plain; charset=utf-8"
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)

Check = Callable[[], str]


class HealthChecks:
    """The checks of one server. All three paths have the same ones."""

    def __init__(self) -> None:
        self._checks: Final[dict[str, Check]] = {"ping": lambda: ""}

    def add(self, name: str, check: Check) -> None:
        """``check`` returns the problem; an empty text means healthy."""
        self._checks[name] = check

    def respond(self, path: str, query: str) -> ServerResponse | None:
        """The response for a health path; ``None`` if there is no such check."""
        root = path.lstrip("/").partition("/")[0]
        if path in PATHS:
            return self._all(root, options.parse_query(query))
        name = path.removeprefix(f"/{root}/")
        check = self._checks.get(name)
        if check is None:
            return None
        problem = check()
        if problem:
            return ServerResponse(500, f"internal server error: {problem}\n".encode(), _TEXT, _NO_SNIFF)
        return ServerResponse(200, b"ok", _TEXT)

    def _all(self, root: str, query: options.Query) -> ServerResponse:
        excluded = set(query.get("exclude", ()))
        problems = {name: "" if name in excluded else check() for name, check in self._checks.items()}
        lines = []
        for name, problem in problems.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            else:
                lines.append(f"[-]{name} failed: reason withheld\n" if problem else f"[+]{name} ok\n")
        if unknown := sorted(excluded - problems.keys()):
            shown = ",".join(map(quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {shown}\n")
        if any(problems.values()):
            return ServerResponse(500, f"{''.join(lines)}{root} check failed\n".encode(), _TEXT, _NO_SNIFF)
        text = f"{''.join(lines)}{root} check passed\n" if "verbose" in query else "ok"
        return ServerResponse(200, text.encode(), _TEXT, _NO_SNIFF)


def is_health(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in PATHS)
