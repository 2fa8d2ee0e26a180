"""The time limit that a client sets for its request with ``?timeout=``.

It is checked before anything else, including the credentials, as in kube-apiserver. Watches have no such limit.
"""

from __future__ import annotations

from headgate.apimachinery import api_errors
from headgate.apiserver.request import options
from headgate.apiserver.request.request_info import RequestInfo
from headgate.kube import timestamps


def refusal(info: RequestInfo, query: str) -> api_errors.StatusError | None:
    """A 400 if the limit is not a duration."""
    if "timeout" not in query or info.is_long_running:
        return None
    text = (options.parse_query(query).get("timeout") or [""])[0]
    problem = timestamps.parse_duration(text) if text else 0
    if not isinstance(problem, str):
        return None
    return api_errors.bad_request(f"invalid timeout specified in the request URL - {problem}")
