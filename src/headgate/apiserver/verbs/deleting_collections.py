"""DELETE of a collection: one object after the other, like single deletes but with fewer waits for the disk.

Deletions are staged, and a few dozen share a commit; the response is sent when all are on disk. The first refusal ends
the request, and earlier deletions remain. ``apiserver/verbs/deleting.py`` deletes one object.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.call import Call
from headgate.apiserver.registry import responses
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Commit, Effect, ServerResponse
from headgate.apiserver.verbs import deleting, reading, writing
from headgate.store import Revision

# No other request is served while these are staged.
_TOGETHER: Final = 32


def delete_collection(call: Call) -> Generator[Effect, Any, ServerResponse]:
    listed = options.list_options(call.query)
    if isinstance(listed, api_errors.StatusError):
        return responses.refused(call, listed)
    wanted = deleting.read_options(call)
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    deleting.warn_of_orphans(call, wanted)
    page = yield from reading.read_page(call, listed)
    if isinstance(page, api_errors.StatusError):
        return responses.refused(call, page)
    way = deleting.deletion_of(call.kind)
    staged: list[Revision] = []
    for seen in page.items:
        item = call.api.store.peek(seen.resource, seen.namespace, seen.name)
        if item is None:
            continue
        deleted = yield from _staging(way(call, item, wanted), staged)
        if isinstance(deleted, api_errors.StatusError) and deleted.reason != "NotFound":
            failure = yield from _commit_all(staged)
            return responses.refused(call, failure or deleted)
        if len(staged) >= _TOGETHER:
            failure = yield from _commit_all(staged)
            if failure is not None:
                return responses.refused(call, failure)
    failure = yield from _commit_all(staged)
    if failure is not None:
        return responses.refused(call, failure)
    # What another request is deleting at this moment must be gone for readers, too, when this is answered.
    failure = None if wanted.dry_run else (yield from writing.wait_for_pending_writes(call.api.store))
    return responses.list_answer(call, page.items, page.meta) if failure is None else responses.refused(call, failure)


def _staging(steps: deleting.Steps, staged: list[Revision]) -> deleting.Steps:
    """A deletion but for its wait for the disk; what to wait for is added to ``staged``."""
    answer: Any = None
    try:
        while True:
            effect = steps.send(answer)
            if isinstance(effect, Commit):
                staged.append(effect.revision)
                answer = None
            else:
                answer = yield effect
    except StopIteration as done:
        deleted: deleting.DeletionResult | api_errors.StatusError = done.value
        return deleted


def _commit_all(staged: list[Revision]) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """The first wait covers what was staged after it; the others only say if something was lost."""
    for revision in staged:
        failure = yield from writing.commit(revision)
        if failure is not None:
            return failure
    staged.clear()
    return None
