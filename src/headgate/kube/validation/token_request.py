"""The rules of a request for a token of a service account."""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.errors import FieldErrors, invalid

_MIN_S: Final = 10 * 60
_MAX_S: Final = 1 << 32


def validate_token_request(obj: dict[str, Any]) -> FieldErrors:
    seconds = (obj.get("spec") or {}).get("expirationSeconds", 0)
    path = "spec.expirationSeconds"
    if seconds < _MIN_S:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_S:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
