"""The errors of the API, as values.

A :class:`StatusError` is an HTTP code plus its ``Status`` object; :meth:`StatusError.body` is that object in wire form.
There is one function per reason, with the texts of Kubernetes' API server, since clients match on them.
``kube/field_errors.py`` has field errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate.kube.field_errors import FieldError, quote, report

CONFLICT_TEXT: Final = "the object has been modified; please apply your changes to the latest version and try again"
NO_RETRY: Final = 0


class GroupResource(NamedTuple):
    """A resource (``deployments``) or a kind (``Deployment``) with its group; ``resource/sub`` names a subresource."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""

    def body(self) -> dict[str, Any]:
        pairs = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {name: text for name, text in pairs if text}


class StatusDetails(msgspec.Struct, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_s: int = NO_RETRY

    def body(self) -> dict[str, Any]:
        pairs = (("name", self.name), ("group", self.group), ("kind", self.kind), ("uid", self.uid))
        out: dict[str, Any] = {name: text for name, text in pairs if text}
        if self.causes:
            out["causes"] = [cause.body() for cause in self.causes]
        if self.retry_after_s:
            out["retryAfterSeconds"] = self.retry_after_s
        return out


class StatusError(msgspec.Struct, frozen=True):
    """An error response. Without ``details`` the field is omitted; empty details are ``{}``."""

    code: int
    reason: str
    message: str
    details: StatusDetails | None = None
    continue_token: str = ""  # for a list that can continue at a newer revision
    untyped: bool = False  # sent as text, without kind and version, before content negotiation

    def body(self) -> dict[str, Any]:
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        out: dict[str, Any] = {} if self.untyped else {"kind": "Status", "apiVersion": "v1"}
        out |= {"metadata": metadata, "status": "Failure"}
        if self.message:
            out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details.body()
        out["code"] = self.code
        return out


def success(details: StatusDetails | None = None, code: int | None = None) -> dict[str, Any]:
    """The ``Status`` of a successful request without an object. A deletion has details, a binding a code."""
    out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        out["details"] = details.body()
    if code is not None:
        out["code"] = code
    return out


def _details(resource: GroupResource, name: str = "", retry_after_s: int = NO_RETRY) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.resource, retry_after_s=retry_after_s)


def not_found(resource: GroupResource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f"{resource} {quote(name)} not found", _details(resource, name))


def unknown_path() -> StatusError:
    """For the path of a resource that is not served."""
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, StatusDetails())


def already_exists(resource: GroupResource, name: str) -> StatusError:
    return StatusError(409, "AlreadyExists", f"{resource} {quote(name)} already exists", _details(resource, name))


def generate_name_conflict(resource: GroupResource, name: str, retry_after_s: int = 1) -> StatusError:
    message = (
        f"{resource} {quote(name)} already exists, the server was not able to generate a unique name for the object"
    )
    return StatusError(409, "AlreadyExists", message, _details(resource, name, retry_after_s))


def conflict(resource: GroupResource, name: str, problem: str = CONFLICT_TEXT) -> StatusError:
    message = f"Operation cannot be fulfilled on {resource} {quote(name)}: {problem}"
    return StatusError(409, "Conflict", message, _details(resource, name))


def apply_conflict(causes: Iterable[StatusCause], message: str) -> StatusError:
    return StatusError(409, "Conflict", message, StatusDetails(causes=tuple(causes)))


def invalid(kind: GroupResource, name: str, errors: Sequence[FieldError]) -> StatusError:
    """``kind`` is the kind with its group: ``GroupResource("apps", "Deployment")``."""
    reported = report(errors)
    message = f"{kind} {quote(name)} is invalid" + (f": {reported.message()}" if errors else "")
    causes = tuple(StatusCause(error.kind.cause, body, error.path) for error, body in reported.bodies)
    details = StatusDetails(name=name, group=kind.group, kind=kind.resource, causes=causes)
    return StatusError(422, "Invalid", message, details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> StatusError:
    return StatusError(401, "Unauthorized", message)


def forbidden(resource: GroupResource, name: str, problem: str) -> StatusError:
    if not resource.group and not resource.resource:
        message = f"forbidden: {problem}"
    elif name:
        message = f"{resource} {quote(name)} is forbidden: {problem}"
    else:
        message = f"{resource} is forbidden: {problem}"
    return StatusError(403, "Forbidden", message, _details(resource, name))


class AuthorizationAttributes(msgspec.Struct, frozen=True):
    """A request in the terms of authorization. ``path`` is only for non-resource requests."""

    user: str
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    version: str = ""


HTML_SAFE: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def access_denied(attributes: AuthorizationAttributes, reason: str = "") -> StatusError:
    """The error for a request that is not authorized. ``reason`` is the authorizer's reason, added at the end."""
    if attributes.path is not None:
        text = f"User {quote(attributes.user)} cannot {attributes.verb} path {quote(attributes.path)}"
    else:
        sub = f"/{attributes.subresource}" if attributes.subresource else ""
        where = f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
        text = (
            f"User {quote(attributes.user)} cannot {attributes.verb} resource {quote(attributes.resource + sub)}"
            f" in API group {quote(attributes.group)} {where}"
        )
    text = text.translate(HTML_SAFE)
    resource = GroupResource(attributes.group, attributes.resource)
    return forbidden(resource, attributes.name, f"{text}: {reason}" if reason else text)


def method_not_supported(resource: GroupResource, action: str) -> StatusError:
    message = f"{action} is not supported on resources of kind {quote(str(resource))}"
    return StatusError(405, "MethodNotAllowed", message, _details(resource))


def method_not_allowed() -> StatusError:
    """For a verb that a path does not support."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, StatusDetails())


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def unsupported_patch_type() -> StatusError:
    """For a PATCH in a format that the resource does not support."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", StatusDetails())


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_old_resource_version(requested: int, oldest: int) -> StatusError:
    return expired(f"too old resource version: {requested} ({oldest})")


def continue_expired(token: str) -> StatusError:
    """``token`` continues the list at the newest revision, for clients that do not want to start again."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    return StatusError(410, "Expired", message, continue_token=token)


def too_large_resource_version(requested: int, current: int) -> StatusError:
    """A revision from the future: the client may have used another server, and should retry."""
    cause = StatusCause("ResourceVersionTooLarge", "Too large resource version")
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(504, "Timeout", message, StatusDetails(causes=(cause,), retry_after_s=1))


def timeout(message: str, retry_after_s: int = NO_RETRY) -> StatusError:
    return StatusError(504, "Timeout", f"Timeout: {message}", StatusDetails(retry_after_s=retry_after_s))


def request_deadline_exceeded() -> StatusError:
    """The timeout of the client's request has passed."""
    message = "Timeout: request did not complete within the allotted timeout"
    return StatusError(504, "Timeout", message, StatusDetails(), untyped=True)


def server_timeout(resource: GroupResource, operation: str, retry_after_s: int = NO_RETRY) -> StatusError:
    message = f"The {operation} operation against {resource} could not be completed at this time, please try again."
    return StatusError(500, "ServerTimeout", message, _details(resource, operation, retry_after_s))


def too_many_requests(message: str, retry_after_s: int = 1) -> StatusError:
    return StatusError(429, "TooManyRequests", message, StatusDetails(retry_after_s=retry_after_s))


def service_unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)


def entity_too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def body_too_large(limit_bytes: int) -> StatusError:
    return entity_too_large(f"limit is {limit_bytes}")


def internal_error(problem: str) -> StatusError:
    details = StatusDetails(causes=(StatusCause(message=problem),))
    return StatusError(500, "InternalError", f"Internal error occurred: {problem}", details)


def unknown_error(problem: str, code: int = 500) -> StatusError:
    """An error without a reason, as some checks of Kubernetes return (a Binding without target)."""
    return StatusError(code, "", problem)


def outcome_unknown(problem: str) -> StatusError:
    """The disk failed, and it is unknown whether the write exists after a restart; the client must check."""
    details = StatusDetails(causes=(StatusCause(reason="OutcomeUnknown", message=problem),))
    return StatusError(500, "InternalError", f"Internal error occurred: {problem}", details)


def insufficient_storage(problem: str) -> StatusError:
    """The disk is full. Nothing was written, and the same request may succeed when there is space."""
    return StatusError(507, "InsufficientStorage", problem, StatusDetails(causes=(StatusCause(message=problem),)))
