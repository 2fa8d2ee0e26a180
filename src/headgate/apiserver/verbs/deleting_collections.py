"""DELETE of a collection: one object after the other, like single deletes but with fewer waits for the disk.

The deletions are staged, and up to 32 of them share a commit; the response is sent when all are on disk. The first
refusal ends the request, and the earlier deletions are not undone. ``apiserver/verbs/deleting.py`` deletes one object.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.registry import responses
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Commit, Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import deleting, reading, writing
from headgate.store import Revision

# After this many staged deletions the request waits for their commit; meanwhile other requests are served.
_BATCH: Final = 32


def delete_collection(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    list_options = options.list_options(call.query)
    if isinstance(list_options, api_errors.StatusError):
        return responses.refused(call, list_options)
    delete_options = deleting.read_options(call)
    if isinstance(delete_options, api_errors.StatusError):
        return responses.refused(call, delete_options)
    deleting.warn_of_orphaned_pods(call, delete_options)
    page = yield from reading.read_page(call, list_options)
    if isinstance(page, api_errors.StatusError):
        return responses.refused(call, page)
    delete_one = deleting.deletion_of(call.kind)
    staged: list[Revision] = []
    for listed in page.items:
        item = call.api.store.read_applied(listed.resource, listed.namespace, listed.name)
        if item is None:
            continue  # another request has deleted it
        deleted = yield from _without_commit(delete_one(call, item, delete_options), staged)
        if isinstance(deleted, api_errors.StatusError) and deleted.reason != "NotFound":
            failure = yield from _commit_all(staged)
            return responses.refused(call, failure or deleted)
        if len(staged) >= _BATCH:
            failure = yield from _commit_all(staged)
            if failure is not None:
                return responses.refused(call, failure)
    failure = yield from _commit_all(staged)
    if failure is not None:
        return responses.refused(call, failure)
    # Objects that other requests are deleting must also be gone for readers before the response is sent.
    failure = None if delete_options.dry_run else (yield from writing.wait_for_pending_writes(call.api.store))
    return responses.list_response(call, page.items, page.meta) if failure is None else responses.refused(call, failure)


def _without_commit(steps: deleting.Steps, staged: list[Revision]) -> deleting.Steps:
    """Runs a deletion. Its commits are not performed; their revisions are added to ``staged`` for a later commit."""
    result: Any = None
    try:
        while True:
            effect = steps.send(result)
            if isinstance(effect, Commit):
                staged.append(effect.revision)
                result = None
            else:
                result = yield effect
    except StopIteration as done:
        deleted: deleting.DeletionResult | api_errors.StatusError = done.value
        return deleted


def _commit_all(staged: list[Revision]) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """Commits the staged deletions. The first commit writes all of them; the others return whether theirs failed."""
    for revision in staged:
        failure = yield from writing.commit(revision)
        if failure is not None:
            return failure
    staged.clear()
    return None
