"""The result of a patch: the patched document, which is the stored object after the patch, or an error."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.api_errors import GroupResource, StatusDetails, StatusError, invalid
from headgate.kube import field_errors

REJECTED: Final = "the server rejected our request due to an error in our request"


class PatchResult(msgspec.Struct, frozen=True):
    """The new document. It shares its unchanged parts with the old one, which is not changed.

    ``strict_errors`` are unknown fields of the *patch*: warnings, or errors with strict validation.
    """

    value: Any
    strict_errors: tuple[str, ...] = ()


class PatchError(msgspec.Struct, frozen=True):
    """``detail``: why an operation failed. Clients do not get it, but the error for the patch of a webhook has it."""

    code: int
    reason: str
    message: str
    detail: str = ""

    @property
    def error(self) -> StatusError:
        """The error response. With code 422 it has empty ``details``; with other codes it has no ``details``."""
        return StatusError(self.code, self.reason, self.message, StatusDetails() if self.code == 422 else None)


def malformed(message: str) -> PatchError:
    """The patch is invalid."""
    return PatchError(400, "BadRequest", message)


def rejected(detail: str = "") -> PatchError:
    """The patch is valid, but does not apply to this document. The API server does not tell clients why."""
    return PatchError(422, "Invalid", REJECTED, detail)


def unexpected(message: str) -> PatchError:
    """An error that Kubernetes does not classify, so that it is returned as 500."""
    return PatchError(500, "", message)


def undecodable(text: str, problem: str) -> StatusError:
    """The patched document is not an object of its kind. ``text`` is the document or the patch as text."""
    return invalid(GroupResource("", ""), "", [field_errors.invalid("patch", text, problem)])
