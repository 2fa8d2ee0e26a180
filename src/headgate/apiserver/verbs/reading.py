"""GET: one object, or a list of them at one revision.

Readers see only committed writes. Label and field selectors are matched with the labels and fields that were extracted
when each object was written, so a list does not decode objects.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from headgate.apimachinery import api_errors, field_selectors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import responses, stored_objects
from headgate.apiserver.request import options, resource_versions
from headgate.apiserver.request.messages import Effect, ServerResponse, WaitRevision
from headgate.apiserver.request_context import RequestContext
from headgate.kube import labels
from headgate.store import Compacted, Item, Revision

Steps = Generator[Effect, Any, ServerResponse]


def wait_for(call: RequestContext, revision: Revision) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """Waits until ``revision`` is visible. Returns an error if it did not become visible in time."""
    store = call.api.store
    if revision <= store.committed:
        return None
    reached = yield WaitRevision(revision, resource_versions.WAIT_S)
    return None if reached else api_errors.too_large_resource_version(revision, store.committed)


def get(call: RequestContext) -> Steps:
    revision = resource_versions.parse_revision((call.query.get("resourceVersion") or [""])[0])
    if isinstance(revision, api_errors.StatusError):
        return responses.refused(call, api_errors.unknown_error(revision.message))
    problem = yield from wait_for(call, revision)
    if problem is not None:
        return responses.refused(call, problem)
    item = call.api.store.read(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    return responses.item_response(call, 200, item)


def is_selected(
    call: RequestContext, item: Item, by_label: labels.Selector, by_field: field_selectors.FieldSelector
) -> bool:
    if not by_label.matches(item.labels):
        return False
    if call.kind.scheme is None or by_field.is_everything:
        return by_field.matches(item.fields)
    return by_field.matches(stored_objects.selectable_fields(call.api, call.kind, item))


def resolve_fields(
    call: RequestContext, list_options: options.ListOptions
) -> options.ListOptions | api_errors.StatusError:
    """The options with a field selector that uses the field names of the stored version.

    Items have the values of their fields under these names, which may differ from those of the requested version.
    """
    kind, selector = call.kind, list_options.field_selector
    if selector.is_everything:
        return list_options
    stored = kind if kind.is_custom_resource else call.api.kinds.stored_kind(kind)
    names = stored_label_names(kind, stored)
    requirements = []
    for requirement in selector.requirements:
        field_label = kind.field_label(requirement.field)
        if isinstance(field_label, str):  # the text of the error: the kind has no such label
            return api_errors.bad_request(field_label)
        requirements.append(msgspec.structs.replace(requirement, field=names[field_label.label]))
    return msgspec.structs.replace(list_options, field_selector=field_selectors.FieldSelector(tuple(requirements)))


def stored_label_names(kind: ServedKind, stored: ServedKind) -> dict[str, str]:
    """The name in the stored version of each field label of ``kind``: the label there with the same paths."""
    if kind is stored:
        return {each.label: each.label for each in kind.field_labels}
    by_paths = {each.paths: each.label for each in stored.field_labels}
    return {each.label: by_paths[each.paths] for each in kind.field_labels}


class ListPage(msgspec.Struct, frozen=True):
    """Some objects of a list; ``meta`` is the ListMeta of the response."""

    items: list[Item]
    meta: dict[str, Any]


def list_objects(call: RequestContext) -> Steps:
    list_options = options.list_options(call.query)
    if isinstance(list_options, api_errors.StatusError):
        return responses.refused(call, list_options)
    page = yield from read_page(call, list_options)
    if isinstance(page, api_errors.StatusError):
        return responses.refused(call, page)
    return responses.list_response(call, page.items, page.meta)


def read_page(
    call: RequestContext, list_options: options.ListOptions
) -> Generator[Effect, Any, ListPage | api_errors.StatusError]:
    resolved = resolve_fields(call, list_options)
    if isinstance(resolved, api_errors.StatusError):
        return resolved
    list_options = resolved
    at, after = None, None
    if list_options.continue_token:
        position = resource_versions.decode_token(call.kind, call.namespace, list_options.continue_token)
        if isinstance(position, api_errors.StatusError):
            return position
        if list_options.resource_version not in ("", "0"):
            return api_errors.bad_request("specifying resource version is not allowed when using continue")
        at, after = position.revision, position.after
        if at == resource_versions.NEWEST:
            at = None
        elif at > call.api.store.committed:
            return api_errors.too_large_resource_version(at, call.api.store.committed)
    else:
        revision = resource_versions.parse_revision(list_options.resource_version)
        if isinstance(revision, api_errors.StatusError):
            return resource_versions.invalid_for_list(revision)
        if list_options.resource_version == "0":
            # "0" means any revision and is served from memory, so the limit is ignored.
            list_options = msgspec.structs.replace(list_options, limit=0)
        if revision:
            problem = yield from wait_for(call, revision)
            if problem is not None:
                return problem
            if list_options.match == options.EXACT or (list_options.limit > 0 and not list_options.match):
                at = revision
    return collect(call, list_options, at, after)


def collect(
    call: RequestContext, list_options: options.ListOptions, at: Revision | None, after: tuple[str, str] | None
) -> ListPage | api_errors.StatusError:
    """One page of selected objects at revision ``at`` (``None``: now) that follow the object ``after``.

    With selectors, one page of the store may have fewer selected objects than the limit, so further pages are read.
    """
    store, kind = call.api.store, call.kind
    selects_all = list_options.label_selector.is_everything and list_options.field_selector.is_everything
    namespace = call.namespace if kind.namespaced and call.namespace else None
    items: list[Item] = []
    while True:
        page = store.page(kind.resource, namespace, at=at, after=after, limit=list_options.limit)
        if isinstance(page, Compacted):
            return _expired(call, list_options, after)
        at = page.revision
        for index, item in enumerate(page.items):
            if not selects_all and not is_selected(
                call, item, list_options.label_selector, list_options.field_selector
            ):
                continue
            items.append(item)
            if list_options.limit and len(items) == list_options.limit:
                remaining = page.remaining + len(page.items) - index - 1
                return ListPage(
                    items, _list_meta(call, at, items[-1] if remaining else None, remaining if selects_all else None)
                )
        if not page.more:
            return ListPage(items, _list_meta(call, at, None, None))
        last = page.items[-1]
        after = (last.namespace, last.name)


def _list_meta(call: RequestContext, revision: Revision, last: Item | None, remaining: int | None) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if last is not None:
        position = resource_versions.ContinuePosition(revision, (last.namespace, last.name))
        meta["continue"] = resource_versions.encode_token(call.kind, call.namespace, position)
        if remaining is not None:
            meta["remainingItemCount"] = remaining
    return meta


def _expired(
    call: RequestContext, list_options: options.ListOptions, after: tuple[str, str] | None
) -> api_errors.StatusError:
    """The error for a compacted revision. Its token lets the client continue at the newest revision."""
    if after is None:
        return api_errors.expired(f"too old resource version: {list_options.resource_version}")
    position = resource_versions.ContinuePosition(resource_versions.NEWEST, after)
    return api_errors.continue_expired(resource_versions.encode_token(call.kind, call.namespace, position))
