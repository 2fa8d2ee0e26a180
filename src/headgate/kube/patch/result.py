"""What applying a patch gives: the patched document, or why there is none."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube import errors
from headgate.kube.status import ApiError, Details, GroupResource, invalid

REJECTED: Final = "the server rejected our request due to an error in our request"


class Patched(msgspec.Struct, frozen=True):
    """The new document. It shares what did not change with the old one, which stays as it was.

    ``complaints`` are fields of the *patch* that nobody knows: warnings, or errors if the client asked for strictness.
    """

    value: Any
    complaints: tuple[str, ...] = ()


class PatchProblem(msgspec.Struct, frozen=True):
    """``why`` is what a client is not told, but the owner of a webhook is: the step that did not apply."""

    code: int
    reason: str
    message: str
    why: str = ""

    @property
    def error(self) -> ApiError:
        """A patch that does not fit its document is answered with empty details, other problems with none."""
        return ApiError(self.code, self.reason, self.message, Details() if self.code == 422 else None)


def malformed(message: str) -> PatchProblem:
    """The patch itself makes no sense."""
    return PatchProblem(400, "BadRequest", message)


def rejected(why: str = "") -> PatchProblem:
    """The patch makes sense, but not for this document. The API server keeps its reasons from clients."""
    return PatchProblem(422, "Invalid", REJECTED, why)


def unexpected(message: str) -> PatchProblem:
    """Errors to which Kubernetes gives no reason and so answers as its own fault."""
    return PatchProblem(500, "", message)


def undecodable(text: str, problem: str) -> ApiError:
    """The document that a patch gave is no object of its kind. ``text`` is that document, or the patch, as text."""
    return invalid(GroupResource("", ""), "", [errors.invalid("patch", text, problem)])
