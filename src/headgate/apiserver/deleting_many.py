"""DELETE of a collection: one object after the other, as if each were asked for, but with fewer waits for the disk.

Deletions are staged, and a few dozen of them share a commit; the answer leaves when all of them are on disk. One that
is refused ends it, and what went before it is gone. How an object goes is said in ``apiserver/deleting.py``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apiserver import deleting, options, reading, views, writing
from headgate.apiserver.call import Call
from headgate.apiserver.messages import Commit, Effect, Response
from headgate.kube import status
from headgate.store import Revision

# Nobody else is served while these are staged.
_TOGETHER: Final = 32


def delete_collection(call: Call) -> Generator[Effect, Any, Response]:
    listed = options.list_options(call.query)
    if isinstance(listed, status.ApiError):
        return views.refused(call, listed)
    wanted = deleting.read_options(call)
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    deleting.warn_of_orphans(call, wanted)
    page = yield from reading.read_page(call, listed)
    if isinstance(page, status.ApiError):
        return views.refused(call, page)
    way = deleting.way_of(call.kind)
    staged: list[Revision] = []
    for seen in page.items:
        item = call.api.store.peek(seen.resource, seen.namespace, seen.name)
        if item is None:
            continue
        deleted = yield from _staging(way(call, item, wanted), staged)
        if isinstance(deleted, status.ApiError) and deleted.reason != "NotFound":
            failure = yield from _commit_all(staged)
            return views.refused(call, failure or deleted)
        if len(staged) >= _TOGETHER:
            failure = yield from _commit_all(staged)
            if failure is not None:
                return views.refused(call, failure)
    failure = yield from _commit_all(staged)
    if failure is not None:
        return views.refused(call, failure)
    # What somebody else is deleting at this moment must be gone for readers, too, when this is answered.
    failure = None if wanted.dry_run else (yield from writing.settle(call.api.store))
    return views.list_answer(call, page.items, page.meta) if failure is None else views.refused(call, failure)


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
        deleted: deleting.Deleted | status.ApiError = done.value
        return deleted


def _commit_all(staged: list[Revision]) -> Generator[Effect, Any, status.ApiError | None]:
    """The first wait covers what was staged after it; the others only say if something was lost."""
    for revision in staged:
        failure = yield from writing.commit(revision)
        if failure is not None:
            return failure
    staged.clear()
    return None
