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

# So many deletions are staged without serving other requests.
_BATCH: Final = 32


def delete_collection(call: Call) -> Generator[Effect, Any, ServerResponse]:
    list_options = options.list_options(call.query)
    if isinstance(list_options, api_errors.StatusError):
        return responses.refused(call, list_options)
    patch_options = deleting.read_options(call)
    if isinstance(patch_options, api_errors.StatusError):
        return responses.refused(call, patch_options)
    deleting.warn_of_orphans(call, patch_options)
    page = yield from reading.read_page(call, list_options)
    if isinstance(page, api_errors.StatusError):
        return responses.refused(call, page)
    delete = deleting.deletion_of(call.kind)
    staged: list[Revision] = []
    for seen in page.items:
        item = call.api.store.peek(seen.resource, seen.namespace, seen.name)
        if item is None:
            continue
        deleted = yield from _without_commit(delete(call, item, patch_options), staged)
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
    failure = None if patch_options.dry_run else (yield from writing.wait_for_pending_writes(call.api.store))
    return responses.list_response(call, page.items, page.meta) if failure is None else responses.refused(call, failure)


def _without_commit(steps: deleting.Steps, staged: list[Revision]) -> deleting.Steps:
    """Runs a deletion without its commits; their revisions are added to ``staged``."""
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
    """Commits all. The first commit includes the later ones; the others only report failures."""
    for revision in staged:
        failure = yield from writing.commit(revision)
        if failure is not None:
            return failure
    staged.clear()
    return None
