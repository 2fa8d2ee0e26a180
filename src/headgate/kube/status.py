"""Every way in which the API says no, as values.

An :class:`ApiError` is an HTTP code plus the ``Status`` object that goes with it; :meth:`ApiError.body` is that
object in wire form. One function per reason below, with the words that Kubernetes' API server uses, since clients
match on them. Who decides that a request fails is elsewhere; field errors come from ``kube/errors.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate.kube.errors import FieldError, quote, tell

CONFLICT_TEXT: Final = "the object has been modified; please apply your changes to the latest version and try again"
NO_RETRY: Final = 0


class GroupResource(NamedTuple):
    """A resource (``deployments``) or a kind (``Deployment``) with its group; ``resource/sub`` names a subresource."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""

    def body(self) -> dict[str, Any]:
        pairs = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {name: text for name, text in pairs if text}


class Details(msgspec.Struct, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: int = NO_RETRY

    def body(self) -> dict[str, Any]:
        pairs = (("name", self.name), ("group", self.group), ("kind", self.kind), ("uid", self.uid))
        out: dict[str, Any] = {name: text for name, text in pairs if text}
        if self.causes:
            out["causes"] = [cause.body() for cause in self.causes]
        if self.retry_after_s:
            out["retryAfterSeconds"] = self.retry_after_s
        return out


class ApiError(msgspec.Struct, frozen=True):
    """A refusal. ``details`` of ``None`` leaves the field out; an empty one is printed as ``{}``."""

    code: int
    reason: str
    message: str
    details: Details | None = None
    continue_token: str = ""  # for a list that may go on from a newer revision
    untyped: bool = False  # said before anybody looked at what the client accepts: as text, without kind or version

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


def success(details: Details | None = None, code: int | None = None) -> dict[str, Any]:
    """The ``Status`` of a request that worked and has no object to show. A deletion has details, a binding a code."""
    out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        out["details"] = details.body()
    if code is not None:
        out["code"] = code
    return out


def _about(resource: GroupResource, name: str = "", retry_after_s: int = NO_RETRY) -> Details:
    return Details(name=name, group=resource.group, kind=resource.resource, retry_after_s=retry_after_s)


def not_found(resource: GroupResource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f"{resource} {quote(name)} not found", _about(resource, name))


def unknown_path() -> ApiError:
    """For a resource path that names nothing served."""
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", message, Details())


def already_exists(resource: GroupResource, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f"{resource} {quote(name)} already exists", _about(resource, name))


def generate_name_conflict(resource: GroupResource, name: str, retry_after_s: int = 1) -> ApiError:
    message = (
        f"{resource} {quote(name)} already exists, the server was not able to generate a unique name for the object"
    )
    return ApiError(409, "AlreadyExists", message, _about(resource, name, retry_after_s))


def conflict(resource: GroupResource, name: str, problem: str = CONFLICT_TEXT) -> ApiError:
    message = f"Operation cannot be fulfilled on {resource} {quote(name)}: {problem}"
    return ApiError(409, "Conflict", message, _about(resource, name))


def apply_conflict(causes: Iterable[Cause], message: str) -> ApiError:
    return ApiError(409, "Conflict", message, Details(causes=tuple(causes)))


def invalid(kind: GroupResource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """``kind`` is the kind with its group: ``GroupResource("apps", "Deployment")``."""
    told = tell(errors)
    message = f"{kind} {quote(name)} is invalid" + (f": {told.message()}" if errors else "")
    causes = tuple(Cause(error.kind.cause, body, error.path) for error, body in told.bodies)
    details = Details(name=name, group=kind.group, kind=kind.resource, causes=causes)
    return ApiError(422, "Invalid", message, details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(resource: GroupResource, name: str, problem: str) -> ApiError:
    if not resource.group and not resource.resource:
        message = f"forbidden: {problem}"
    elif name:
        message = f"{resource} {quote(name)} is forbidden: {problem}"
    else:
        message = f"{resource} is forbidden: {problem}"
    return ApiError(403, "Forbidden", message, _about(resource, name))


class Attributes(msgspec.Struct, frozen=True):
    """Who wants to do what: a request in the terms of authorization. ``path`` is only for what is not a resource."""

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


def access_denied(attributes: Attributes, reason: str = "") -> ApiError:
    """What the authorizer's refusal reads like. ``reason`` is the authorizer's own word, added at the end."""
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


def method_not_supported(resource: GroupResource, action: str) -> ApiError:
    message = f"{action} is not supported on resources of kind {quote(str(resource))}"
    return ApiError(405, "MethodNotAllowed", message, _about(resource))


def method_not_allowed() -> ApiError:
    """For a verb that a path does not offer at all."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, Details())


def not_acceptable(accepted: Iterable[str]) -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message)


def unsupported_patch_type() -> ApiError:
    """For a PATCH in a format that the resource does not offer."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", Details())


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_old_resource_version(wanted: int, oldest: int) -> ApiError:
    return expired(f"too old resource version: {wanted} ({oldest})")


def continue_expired(token: str) -> ApiError:
    """``token`` continues the list at the newest revision, for clients that prefer that to starting again."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    return ApiError(410, "Expired", message, continue_token=token)


def too_large_resource_version(wanted: int, current: int) -> ApiError:
    """A revision from the future: the client may have talked to another server, and should ask again."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiError(504, "Timeout", message, Details(causes=(cause,), retry_after_s=1))


def timeout(message: str, retry_after_s: int = NO_RETRY) -> ApiError:
    return ApiError(504, "Timeout", f"Timeout: {message}", Details(retry_after_s=retry_after_s))


def allotted_time_over() -> ApiError:
    """The client gave the server so much time, and it has passed."""
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(504, "Timeout", message, Details(), untyped=True)


def server_timeout(resource: GroupResource, operation: str, retry_after_s: int = NO_RETRY) -> ApiError:
    message = f"The {operation} operation against {resource} could not be completed at this time, please try again."
    return ApiError(500, "ServerTimeout", message, _about(resource, operation, retry_after_s))


def too_many_requests(message: str, retry_after_s: int = 1) -> ApiError:
    return ApiError(429, "TooManyRequests", message, Details(retry_after_s=retry_after_s))


def service_unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def entity_too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def body_too_large(limit_bytes: int) -> ApiError:
    return entity_too_large(f"limit is {limit_bytes}")


def internal_error(problem: str) -> ApiError:
    details = Details(causes=(Cause(message=problem),))
    return ApiError(500, "InternalError", f"Internal error occurred: {problem}", details)


def unknown_error(problem: str, code: int = 500) -> ApiError:
    """An error that no one gave a reason: some of Kubernetes' own checks answer this way (a Binding without target)."""
    return ApiError(code, "", problem)


def outcome_unknown(problem: str) -> ApiError:
    """The disk failed, and whether the write exists after a restart cannot be told; a client must look."""
    details = Details(causes=(Cause(reason="OutcomeUnknown", message=problem),))
    return ApiError(500, "InternalError", f"Internal error occurred: {problem}", details)


def insufficient_storage(problem: str) -> ApiError:
    """The disk is full. Nothing was written, and the same request may succeed once there is room."""
    return ApiError(507, "InsufficientStorage", problem, Details(causes=(Cause(message=problem),)))
