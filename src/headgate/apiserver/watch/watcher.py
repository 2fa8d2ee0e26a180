"""Watches: the changes of one resource from a revision on, filtered by selectors.

A :class:`WatchCursor` is one open watch. It returns the events that were committed since its last call. It keeps only
its position in the history and no queue of changes, so a slow client needs no memory. If the history after its position
is compacted, the watch ends with the 410 event, after which clients list again. ``apiserver/io/api_server.py`` decides
when to call it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors, field_selectors
from headgate.apiserver.kinds.kind import METADATA_LABELS
from headgate.apiserver.kinds.scheme import KindScheme
from headgate.apiserver.printers import table_visits
from headgate.apiserver.registry import responses, stored_objects
from headgate.apiserver.request import options, resource_versions
from headgate.apiserver.request.messages import LONG_BYTES, Effect, ServerResponse, WebhookAnswer, WebhookCall
from headgate.apiserver.request.negotiation import JSON
from headgate.apiserver.request.warning_headers import warning_headers
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import reading
from headgate.apiserver.watch.index import WatchScope
from headgate.apiserver.webhooks.conversion import ConversionRequired, Conversions, ConversionWebhookFailed
from headgate.store import Compacted, Item, ItemPage, Revision, StoreChange

_encoder: Final = msgspec.json.Encoder()
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
_BYTES_PER_VISIT: Final = 16  # so many bytes of an event cost as much as the visit of one value by a JSONPath
_DEFAULT_TIMEOUT_S: Final = 1800
_MAX_CHANGES: Final = 1000  # a watch that is far behind must not copy the whole history for one piece of it


MAX_REQUIREMENTS: Final = 500
"""Of the selectors of one watch: they are evaluated for each change of the resource, in the event loop."""
_TOO_MANY_REQUIREMENTS: Final = f"the selectors of a watch may have at most {MAX_REQUIREMENTS} requirements"
# Starts a call of a webhook; the second argument is called with the answer.
CallWebhook = Callable[[WebhookCall, Callable[[WebhookAnswer], None]], None]


class WatchCursor:
    """One open watch. ``take`` returns its next events as bytes. ``failure``: the watch only sends this error."""

    def __init__(
        self,
        call: RequestContext,
        list_options: options.ListOptions,
        since: Revision,
        failure: api_errors.StatusError | None,
    ) -> None:
        self._call: Final = call
        self._list_options: Final = list_options
        self._position = since
        self._failure = failure
        self._headers_sent = False
        self._spent_visits = 0  # JSONPath visits since the last event
        self._initial_pending = bool(list_options.send_initial_events) and failure is None
        self._initial_begun = False
        self._initial_items: Sequence[Item] = ()
        self._initial_index = 0
        self._scheme: Final = _current_scheme(call)
        self._converting = False
        self.conversions: Conversions | None = None  # for kinds with a conversion webhook
        self.call_webhook: CallWebhook | None = None  # calls that webhook; ``apiserver/io/api_server.py`` sets it
        self.ended = False
        self.behind = False  # the last `take` reached its limit, so there is more to send
        self.resource: Final = call.kind.resource
        self.scope: Final = _scope_of(call, list_options)
        self.content_type: Final = JSON
        self.headers: Final = tuple(warning_headers(call.warnings))
        self.timeout_s: Final = float(list_options.timeout_s or _DEFAULT_TIMEOUT_S)
        self.wants_bookmarks: Final = list_options.allow_bookmarks

    @property
    def position(self) -> Revision:
        """All changes up to this revision have been sent."""
        return self._position

    def take(self, limit_bytes: int) -> bytes:
        """Events since the last call, up to the one that reaches the limit.

        The values that the JSONPath columns of a Table visit count like bytes, so that expensive rows are sent in
        smaller pieces.
        """
        events: list[bytes] = []
        size = 0
        for event in self.pull():
            events.append(event)
            size += len(event) + self._spent_visits * _BYTES_PER_VISIT
            self._spent_visits = 0
            if size >= limit_bytes:
                self.behind = True
                break
        else:
            self.behind = False
        return events[0] if len(events) == 1 else b"".join(events)

    def pull(self) -> Iterator[bytes]:
        """Encoded events since the last pull; none after ``ended``. A caller may stop at any event: the next pull
        continues after it."""
        if self.ended or self._converting:
            return
        if self._failure is not None:
            yield self._end(self._failure)
            return
        while True:
            try:
                yield from self._events()
            except ConversionRequired as need:
                if self._convert(need):
                    return
            except ConversionWebhookFailed as problem:
                yield self._end(api_errors.unknown_error(str(problem)))
                return
            else:
                break
        if self.conversions is not None:
            self.conversions.forget()
        if _current_scheme(self._call) is not self._scheme:
            self.ended = True  # the CustomResourceDefinition changed or was deleted: the client must open a new watch

    def _convert(self, need: ConversionRequired) -> bool:
        """Requests the conversion of objects by the webhook. Returns whether its answer is still outstanding."""
        if self.conversions is None or self.call_webhook is None:
            raise ConversionWebhookFailed("no conversion webhook is available for this watch")
        conversions = self.conversions

        def on_response(response: WebhookAnswer) -> None:
            conversions.record(need, response)
            self._converting = False

        call = conversions.request(need)
        if call is not None:
            self._converting = True
            self.call_webhook(call, on_response)
        return self._converting

    def _events(self) -> Iterator[bytes]:
        yield from self._initial()
        store = self._call.api.store
        while self._position < store.committed:
            changes = store.changes(self.resource, self._position, _MAX_CHANGES)
            if isinstance(changes, Compacted):
                yield self._end(api_errors.too_old_resource_version(self._position, changes.oldest))
                return
            for change in changes:
                event = self._event_of(change)
                self._position = change.revision
                if event is not None:
                    yield event
            if len(changes) < _MAX_CHANGES:
                self._position = max(self._position, store.committed)

    def catch_up(self, upto: Revision | None = None) -> None:
        """Skips the changes up to a revision (default: the committed one); none of them is in the watch's scope."""
        if self._converting:  # the object that is being converted is in the scope, so it must not be skipped
            return
        self._position = max(self._position, self._call.api.store.committed if upto is None else upto)

    def bookmark(self) -> bytes:
        """A bookmark event with the position of the watch."""
        return self._encode("BOOKMARK", self._bookmark_object({}))

    def _initial(self) -> Iterator[bytes]:
        """``sendInitialEvents``: all objects at the time of the first pull as ADDED events, then the bookmark that
        marks their end."""
        if not self._initial_pending:
            return
        call, store = self._call, self._call.api.store
        if not self._initial_begun:
            self._initial_begun = True
            page = store.page(self.resource, self._namespace(), at=None, after=None, limit=0)
            self._position = store.committed
            if isinstance(page, ItemPage):  # the newest revision is never compacted
                self._initial_items = [item for item in page.items if self._selects(item)]
        stored_objects.request_conversions(call.api, call.kind, self._initial_items[self._initial_index :])
        while self._initial_index < len(self._initial_items):
            event = self._encode_item("ADDED", self._initial_items[self._initial_index])
            self._initial_index += 1
            yield event
        self._initial_items = ()
        self._initial_pending = False
        if self._list_options.allow_bookmarks:
            yield self._encode("BOOKMARK", self._bookmark_object(_INITIAL_EVENTS_END))

    def _namespace(self) -> str | None:
        return self._call.namespace or None

    def _selects(self, item: Item | None) -> bool:
        if item is None:
            return False
        namespace = self._call.namespace
        if namespace and item.namespace != namespace:
            return False
        return reading.is_selected(
            self._call, item, self._list_options.label_selector, self._list_options.field_selector
        )

    def _event_of(self, change: StoreChange) -> bytes | None:
        """The event for one change; None if the object is not selected before or after it.

        An object that no longer matches the selectors is DELETED for this watch, one that begins to match is ADDED.
        """
        was_selected = self._selects(change.previous)
        is_selected = not change.deleted and self._selects(change.item)
        if is_selected:
            return self._encode_item("MODIFIED" if was_selected else "ADDED", change.item)
        if not was_selected or change.previous is None:
            return None
        if change.deleted:
            return self._encode_item("DELETED", change.item)
        return self._encode("DELETED", _with_revision(self._call, change.previous, change.revision))

    def _bookmark_object(self, annotations: dict[str, str]) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self._position)}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._call.kind
        return stored_objects.wire_form(self._call.api, kind, {"metadata": metadata})

    def _end(self, error: api_errors.StatusError) -> bytes:
        self.ended = True
        return b'{"type":"ERROR","object":%s}\n' % _encoder.encode(error.body())

    def _encode_item(self, event: str, item: Item) -> bytes:
        api, kind = self._call.api, self._call.kind

        def serve() -> bytes:
            return stored_objects.serve(api, kind, item)

        if len(item.data) <= LONG_BYTES:
            return self._encode(event, serve())
        served = api.long_objects.form("served", kind, item, serve)
        if self._call.output.view == "object":
            return self._encode(event, served)
        return self._encode(event, api.long_objects.form("decoded", kind, item, lambda: stored_objects.decode(served)))

    def _encode(self, event: str, data: bytes | dict[str, Any]) -> bytes:
        """``data`` is not changed."""
        view = self._call.output.view
        if view != "object":
            obj = msgspec.json.decode(data) if isinstance(data, bytes) else data
            data = (
                self._as_table(obj)
                if view == "Table"
                else responses.partial_metadata(self._call.kind, obj, self._call.output.version)
            )
        encoded = data if isinstance(data, bytes) else _encoder.encode(data)
        return b'{"type":"%s","object":%s}\n' % (event.encode(), encoded)

    def _as_table(self, obj: dict[str, Any]) -> dict[str, Any]:
        visits = table_visits(1)
        before = visits.remaining
        table = responses.as_table(
            self._call, [obj], responses.list_meta_of(obj), headers=not self._headers_sent, visits=visits
        )
        self._spent_visits += before - visits.remaining
        self._headers_sent = True
        return table.body() if isinstance(table, api_errors.StatusError) else table


# The values of these labels are stored with every custom object, also if its CustomResourceDefinition changed later.
_ALWAYS_STORED: Final = frozenset(each.label for each in METADATA_LABELS)


def _scope_of(call: RequestContext, list_options: options.ListOptions) -> WatchScope:
    for each in list_options.field_selector.requirements:
        if each.operator == "=" and (call.kind.scheme is None or each.field in _ALWAYS_STORED):
            return WatchScope(call.namespace, each.field, each.value)
    return WatchScope(call.namespace)


def _current_scheme(call: RequestContext) -> KindScheme | None:
    """The present scheme of this kind; None for built-in kinds, which never change."""
    if call.kind.scheme is None:
        return None
    kind = call.api.kinds.by_resource(call.kind.group, call.kind.version, call.kind.plural)
    return None if kind is None else kind.scheme


def _with_revision(call: RequestContext, item: Item, revision: Revision) -> dict[str, Any]:
    """The object ``item``, the last state that was selected, with the revision of the change that ended that."""
    obj = stored_objects.load(call.api, call.kind, item)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _with_name(call: RequestContext, list_options: options.ListOptions) -> options.ListOptions | api_errors.StatusError:
    """The deprecated ``/watch/`` paths may name one object; a field selector must then name the same one."""
    name, selector = call.info.name, list_options.field_selector
    if not name:
        return list_options
    if not selector.is_everything:
        same = selector.exact("metadata.name") == name
        return (
            list_options if same else api_errors.bad_request("fieldSelector metadata.name doesn't match requested name")
        )
    by_name = field_selectors.FieldRequirement("metadata.name", "=", name)
    return msgspec.structs.replace(list_options, field_selector=field_selectors.FieldSelector((by_name,)))


def watch(
    call: RequestContext, list_options: options.ListOptions
) -> Generator[Effect, Any, ServerResponse | WatchCursor]:
    with_name = _with_name(call, list_options)
    if isinstance(with_name, api_errors.StatusError):
        return responses.refused(call, with_name)
    resolved = reading.resolve_fields(call, with_name)
    if isinstance(resolved, api_errors.StatusError):
        return responses.refused(call, resolved)
    list_options = resolved
    if len(list_options.label_selector.requirements) + len(list_options.field_selector.requirements) > MAX_REQUIREMENTS:
        return responses.refused(call, api_errors.bad_request(_TOO_MANY_REQUIREMENTS))
    included = responses.include_object(call) if call.output.view == "Table" else None
    if isinstance(included, api_errors.StatusError):
        return responses.refused(call, included)
    revision = resource_versions.parse_revision(list_options.resource_version)
    if isinstance(revision, api_errors.StatusError):
        return responses.refused(call, api_errors.unknown_error(revision.message))
    failure = None
    if list_options.send_initial_events and revision:
        failure = yield from reading.wait_for(call, revision)
    store = call.api.store
    since = revision or store.committed
    if not list_options.send_initial_events and since < store.oldest:
        failure = api_errors.too_old_resource_version(since, store.oldest)
    return WatchCursor(call, list_options, since, failure)
