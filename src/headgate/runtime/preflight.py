"""Checks before the start on an existing cluster: whether the API server has the required features.

Pure: it yields requests and is sent responses. ``lease_owners.py`` checks whether another program does the same work.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.serializer import wire_json


class _Version(msgspec.Struct):
    major: str
    minor: str


PreflightSteps = Generator[HTTPRequest, HTTPResponse, str]
"""Requests and their responses. The result is an error text with a hint, or empty if the check succeeded."""

KUEUE_KINDS: Final = "/apis/kueue.x-k8s.io/v1beta2"

_JSON: Final = {"accept": "application/json"}
_CORE_SCHEMA_PATH: Final = "/openapi/v3/api/v1"
_GATES_FIELD: Final = b'"schedulingGates"'
_GATES_LOCKED_SINCE: Final = (1, 30)
_NOT_FOUND: Final = 404
_decode_version: Final = wire_json.WireDecoder(_Version).decode


def check_scheduling_gates() -> PreflightSteps:
    """Checks that the server supports scheduling gates. The version is read before the schema, because the schema is
    large and is needed only for some versions."""
    version = yield HTTPRequest("GET", "/version", "", _JSON)
    if version.ok and _always_has_gates(version.body):
        return ""
    response = yield HTTPRequest("GET", _CORE_SCHEMA_PATH, "", _JSON)
    if response.status in (401, 403):
        return "" if version.ok else f"the server denies access: {message_of(response)}"
    if not response.ok:
        return (
            f"the schema of pods cannot be read: {_CORE_SCHEMA_PATH} returned {response.status}: {message_of(response)}"
        )
    if _GATES_FIELD not in response.body:
        return "the server does not support spec.schedulingGates of pods: Kubernetes 1.27 or newer is needed"
    return ""


def _always_has_gates(body: bytes) -> bool:
    """Whether scheduling gates cannot be switched off in this version."""
    try:
        version = _decode_version(body)
        return (int(version.major), int(version.minor.rstrip("+"))) >= _GATES_LOCKED_SINCE
    except (msgspec.DecodeError, ValueError):
        return False  # the schema is read next


def check_kueue_kinds() -> PreflightSteps:
    """A message with a hint if Kueue's kinds are not served; empty otherwise."""
    response = yield HTTPRequest("GET", KUEUE_KINDS, "", _JSON)
    if response.status != _NOT_FOUND:
        return ""
    return "the server does not serve Kueue's kinds yet, so quota has nothing to do; headgate install-crds creates them"
