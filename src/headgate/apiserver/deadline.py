"""The time limit that a client gives its request with ``?timeout=``.

It is checked before anything else is looked at, the credentials included, as on the real server. Streams have no such
limit.
"""

from __future__ import annotations

from headgate.apiserver import options
from headgate.apiserver.request_info import RequestInfo
from headgate.kube import status, timestamps


def refusal(info: RequestInfo, query: str) -> status.ApiError | None:
    """The 400 for a limit that is no duration."""
    if "timeout" not in query or info.is_long_running:
        return None
    asked = (options.parse_query(query).get("timeout") or [""])[0]
    problem = timestamps.parse_duration(asked) if asked else 0
    if not isinstance(problem, str):
        return None
    return status.bad_request(f"invalid timeout specified in the request URL - {problem}")
