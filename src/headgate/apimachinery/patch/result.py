"""The result of a patch: the patched document, or an error."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.api_errors import GroupResource, StatusDetails, StatusError, invalid
from headgate.kube import field_errors

REJECTED: Final = "the server rejected our request due to an error in our request"


class PatchResult(msgspec.Struct, frozen=True):
    """The new document. It shares what did not change with the old one, which stays as it was.

    ``complaints`` are unknown fields of the *patch*: warnings, or errors with strict validation.
    """

    value: Any
    complaints: tuple[str, ...] = ()


class PatchError(msgspec.Struct, frozen=True):
    """``why`` is the step that did not apply: a client does not get it, but the owner of a webhook does."""

    code: int
    reason: str
    message: str
    why: str = ""

    @property
    def error(self) -> StatusError:
        """A patch that does not fit its document is answered with empty details, other problems with none."""
        return StatusError(self.code, self.reason, self.message, StatusDetails() if self.code == 422 else None)


def malformed(message: str) -> PatchError:
    """The patch itself makes no sense."""
    return PatchError(400, "BadRequest", message)


def rejected(why: str = "") -> PatchError:
    """The patch makes sense, but not for this document. The API server keeps its reasons from clients."""
    return PatchError(422, "Invalid", REJECTED, why)


def unexpected(message: str) -> PatchError:
    """Errors to which Kubernetes gives no reason and so answers as its own fault."""
    return PatchError(500, "", message)


def undecodable(text: str, problem: str) -> StatusError:
    """The document that a patch gave is no object of its kind. ``text`` is that document, or the patch, as text."""
    return invalid(GroupResource("", ""), "", [field_errors.invalid("patch", text, problem)])
