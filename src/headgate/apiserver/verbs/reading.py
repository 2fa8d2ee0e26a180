"""GET: one object, or a list of them at one revision.

Readers see only what is committed. A list is filtered by label and field selectors on the values that were extracted
when each object was written, so nothing is decoded to answer one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from headgate.apimachinery import api_errors, field_selectors
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import responses, stored_objects
from headgate.apiserver.request import options, resource_versions
from headgate.apiserver.request.messages import Effect, ServerResponse, WaitRevision
from headgate.kube import labels
from headgate.store import Compacted, Item, Revision

Steps = Generator[Effect, Any, ServerResponse]


def wait_for(call: Call, revision: Revision) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """Wait until ``revision`` is visible; the error a client gets if it never becomes so."""
    store = call.api.store
    if revision <= store.committed:
        return None
    reached = yield WaitRevision(revision, resource_versions.WAIT_S)
    return None if reached else api_errors.too_large_resource_version(revision, store.committed)


def get(call: Call) -> Steps:
    wanted = resource_versions.parse_revision((call.query.get("resourceVersion") or [""])[0])
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, api_errors.unknown_error(wanted.message))
    problem = yield from wait_for(call, wanted)
    if problem is not None:
        return responses.refused(call, problem)
    item = call.api.store.read(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    return responses.item_answer(call, 200, item)


def selected(call: Call, item: Item, by_label: labels.Selector, by_field: field_selectors.FieldSelector) -> bool:
    if not by_label.matches(item.labels):
        return False
    if call.kind.scheme is None or by_field.is_everything:
        return by_field.matches(item.fields)
    return by_field.matches(stored_objects.selectable_fields(call.api, call.kind, item))


def resolve_fields(call: Call, wanted: options.ListOptions) -> options.ListOptions | api_errors.StatusError:
    """The same options with a field selector that asks for fields as they are kept with an item.

    Those have the names of the version that is stored; another version may call them otherwise.
    """
    kind, selector = call.kind, wanted.field_selector
    if selector.is_everything:
        return wanted
    stored = kind if kind.scheme is not None else call.api.kinds.stored_kind(kind)
    names = kept_names(kind, stored)
    requirements = []
    for requirement in selector.requirements:
        row = kind.field_label(requirement.field)
        if isinstance(row, str):
            return api_errors.bad_request(row)
        requirements.append(msgspec.structs.replace(requirement, field=names[row.label]))
    return msgspec.structs.replace(wanted, field_selector=field_selectors.FieldSelector(tuple(requirements)))


def kept_names(kind: ServedKind, stored: ServedKind) -> dict[str, str]:
    """Under which name the value of each field label of ``kind`` is kept."""
    if kind is stored:
        return {each.label: each.label for each in kind.field_labels}
    by_paths = {each.paths: each.label for each in stored.field_labels}
    return {each.label: by_paths[each.paths] for each in kind.field_labels}


class ListPage(msgspec.Struct, frozen=True):
    items: list[Item]
    meta: dict[str, Any]


def list_objects(call: Call) -> Steps:
    wanted = options.list_options(call.query)
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    page = yield from read_page(call, wanted)
    if isinstance(page, api_errors.StatusError):
        return responses.refused(call, page)
    return responses.list_answer(call, page.items, page.meta)


def read_page(call: Call, wanted: options.ListOptions) -> Generator[Effect, Any, ListPage | api_errors.StatusError]:
    resolved = resolve_fields(call, wanted)
    if isinstance(resolved, api_errors.StatusError):
        return resolved
    wanted = resolved
    at, after = None, None
    if wanted.continue_token:
        position = resource_versions.decode_token(call.kind, call.namespace, wanted.continue_token)
        if isinstance(position, api_errors.StatusError):
            return position
        if wanted.resource_version not in ("", "0"):
            return api_errors.bad_request("specifying resource version is not allowed when using continue")
        at, after = position.revision, position.after
        if at == resource_versions.NEWEST:
            at = None
        elif at > call.api.store.committed:
            return api_errors.too_large_resource_version(at, call.api.store.committed)
    else:
        revision = resource_versions.parse_revision(wanted.resource_version)
        if isinstance(revision, api_errors.StatusError):
            return resource_versions.invalid_for_list(revision)
        if wanted.resource_version == "0":
            # "Whatever is at hand" is answered from memory, where a limit saves nothing: it is not looked at.
            wanted = msgspec.structs.replace(wanted, limit=0)
        if revision:
            problem = yield from wait_for(call, revision)
            if problem is not None:
                return problem
            if wanted.match == options.EXACT or (wanted.limit > 0 and not wanted.match):
                at = revision
    return collect(call, wanted, at, after)


def collect(
    call: Call, wanted: options.ListOptions, at: Revision | None, after: tuple[str, str] | None
) -> ListPage | api_errors.StatusError:
    """Fill one page, reading on while the selectors leave it short."""
    store, kind = call.api.store, call.kind
    everything = wanted.label_selector.is_everything and wanted.field_selector.is_everything
    namespace = call.namespace if kind.namespaced and call.namespace else None
    items: list[Item] = []
    while True:
        page = store.page(kind.resource, namespace, at=at, after=after, limit=wanted.limit)
        if isinstance(page, Compacted):
            return _expired(call, wanted, after)
        at = page.revision
        for index, item in enumerate(page.items):
            if not everything and not selected(call, item, wanted.label_selector, wanted.field_selector):
                continue
            items.append(item)
            if wanted.limit and len(items) == wanted.limit:
                left = page.remaining + len(page.items) - index - 1
                return ListPage(items, _list_meta(call, at, items[-1] if left else None, left if everything else None))
        if not page.more:
            return ListPage(items, _list_meta(call, at, None, None))
        last = page.items[-1]
        after = (last.namespace, last.name)


def _list_meta(call: Call, revision: Revision, last: Item | None, remaining: int | None) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if last is not None:
        position = resource_versions.ContinuePosition(revision, (last.namespace, last.name))
        meta["continue"] = resource_versions.encode_token(call.kind, call.namespace, position)
        if remaining is not None:
            meta["remainingItemCount"] = remaining
    return meta


def _expired(call: Call, wanted: options.ListOptions, after: tuple[str, str] | None) -> api_errors.StatusError:
    """A paged list that took too long may go on with what is there now, if the client prefers that."""
    if after is None:
        return api_errors.expired(f"too old resource version: {wanted.resource_version}")
    position = resource_versions.ContinuePosition(resource_versions.NEWEST, after)
    return api_errors.continue_expired(resource_versions.encode_token(call.kind, call.namespace, position))
