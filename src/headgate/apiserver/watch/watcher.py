"""Watches: the changes of one resource from a revision on, filtered by selectors.

A :class:`WatchCursor` is pulled, never pushed: the transport asks for what was committed since the last time. The
cursor keeps only a position, so a slow reader costs nothing. If the history that it still needs is compacted, it ends
with the 410 event that makes clients list again. ``apiserver/io/api_server.py`` decides when to pull.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors, field_selectors
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import METADATA_LABELS
from headgate.apiserver.kinds.scheme import KindScheme
from headgate.apiserver.printers import table_visits
from headgate.apiserver.registry import responses, stored_objects
from headgate.apiserver.request import options, resource_versions
from headgate.apiserver.request.messages import Effect, ServerResponse, WebhookAnswer, WebhookCall
from headgate.apiserver.request.negotiation import JSON
from headgate.apiserver.request.warning_headers import warning_headers
from headgate.apiserver.verbs import reading
from headgate.apiserver.watch.index import WatchScope
from headgate.apiserver.webhooks.conversion import ConversionRequired, Conversions, ConversionWebhookFailed
from headgate.store import Compacted, Item, ItemPage, Revision, StoreChange

_encoder: Final = msgspec.json.Encoder()
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
_BYTES_PER_VISIT: Final = 16
_MIN_TIMEOUT_S: Final = 1800
_MAX_CHANGES: Final = 1000  # a watch that is far behind must not copy the whole history for one piece of it


CallWebhook = Callable[[WebhookCall, Callable[[WebhookAnswer], None]], None]


class WatchCursor:
    """One open watch. ``pull`` yields encoded events; after ``ended`` it yields none."""

    def __init__(
        self, call: Call, list_options: options.ListOptions, since: Revision, failure: api_errors.StatusError | None
    ) -> None:
        self._call: Final = call
        self._list_options: Final = list_options
        self._position = since
        self._failure = failure
        self._headers_sent = False
        self._spent_visits = 0  # since the last event was taken
        self._initial_pending = bool(list_options.send_initial_events) and failure is None
        self._initial_begun = False
        self._initial_items: Sequence[Item] = ()
        self._initial_index = 0
        self._scheme: Final = _current_scheme(call)
        self._converting = False
        self.conversions: Conversions | None = None  # for kinds with a conversion webhook
        self.call_webhook: CallWebhook | None = None  # calls that webhook; ``apiserver/io/api_server.py`` sets it
        self.ended = False
        self.behind = False  # the last `take` left something for the next
        self.resource: Final = call.kind.resource
        self.scope: Final = _scope_of(call, list_options)
        self.content_type: Final = JSON
        self.headers: Final = tuple(warning_headers(call.warnings))
        self.timeout_s: Final = float(list_options.timeout_s or _MIN_TIMEOUT_S)
        self.wants_bookmarks: Final = list_options.allow_bookmarks

    @property
    def position(self) -> Revision:
        """All changes up to this revision have been sent."""
        return self._position

    def take(self, limit_bytes: int) -> bytes:
        """Events since the last call, up to the one that reaches the limit.

        Visits of Table columns count like bytes, so that expensive rows are sent in smaller pieces.
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
        """Events since the last pull. A caller that stops continues at the same event next time."""
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
            self.ended = True  # its definition changed or is gone: the client must open a new watch

    def _convert(self, need: ConversionRequired) -> bool:
        """Requests the conversion. Returns whether the response is still pending."""
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
        """Skips changes up to a revision (default: the committed one), none of which is in the scope of this watch."""
        if self._converting:  # a pending conversion is in its scope
            return
        self._position = max(self._position, self._call.api.store.committed if upto is None else upto)

    def bookmark(self) -> bytes:
        """A bookmark event with the position of the watch."""
        return self._encode("BOOKMARK", self._bookmark_object({}))

    def _initial(self) -> Iterator[bytes]:
        """The state at the first pull as ADDED events, then the bookmark for its end."""
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
            event = self._encode(
                "ADDED", stored_objects.serve(call.api, call.kind, self._initial_items[self._initial_index])
            )
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
        """An object that leaves the selection is DELETED for this watch, one that enters it is ADDED."""
        was_selected = self._selects(change.previous)
        is_selected = not change.deleted and self._selects(change.item)
        call = self._call
        if is_selected:
            return self._encode(
                "MODIFIED" if was_selected else "ADDED", stored_objects.serve(call.api, call.kind, change.item)
            )
        if not was_selected or change.previous is None:
            return None
        if change.deleted:
            return self._encode("DELETED", stored_objects.serve(call.api, call.kind, change.item))
        return self._encode("DELETED", _with_revision(call, change.previous, change.revision))

    def _bookmark_object(self, annotations: dict[str, str]) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self._position)}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._call.kind
        return stored_objects.canonical(self._call.api, kind, {"metadata": metadata})

    def _end(self, error: api_errors.StatusError) -> bytes:
        self.ended = True
        return b'{"type":"ERROR","object":%s}\n' % _encoder.encode(error.body())

    def _encode(self, event: str, data: bytes | dict[str, Any]) -> bytes:
        view = self._call.output.view
        if view == "Table":
            data = self._as_table(data)
        elif view != "object":
            obj = msgspec.json.decode(data) if isinstance(data, bytes) else data
            data = responses.partial_metadata(self._call.kind, obj, self._call.output.version)
        encoded = data if isinstance(data, bytes) else _encoder.encode(data)
        return b'{"type":"%s","object":%s}\n' % (event.encode(), encoded)

    def _as_table(self, data: bytes | dict[str, Any]) -> dict[str, Any]:
        obj = msgspec.json.decode(data) if isinstance(data, bytes) else data
        visits = table_visits(1)
        before = visits.remaining
        table = responses.as_table(
            self._call, [obj], responses.revision_of(obj), headers=not self._headers_sent, visits=visits
        )
        self._spent_visits += before - visits.remaining
        self._headers_sent = True
        return table.body() if isinstance(table, api_errors.StatusError) else table


_ALWAYS_KEPT: Final = frozenset(each.label for each in METADATA_LABELS)


def _scope_of(call: Call, list_options: options.ListOptions) -> WatchScope:
    for each in list_options.field_selector.requirements:
        if each.operator == "=" and (call.kind.scheme is None or each.field in _ALWAYS_KEPT):
            return WatchScope(call.namespace, each.field, each.value)
    return WatchScope(call.namespace)


def _current_scheme(call: Call) -> KindScheme | None:
    """The present scheme of this kind; None for built-in kinds, which never change."""
    if call.kind.scheme is None:
        return None
    kind = call.api.kinds.by_resource(call.kind.group, call.kind.version, call.kind.plural)
    return None if kind is None else kind.scheme


def _with_revision(call: Call, item: Item, revision: Revision) -> dict[str, Any]:
    """The last selected state, with the revision at which the object left the selection."""
    obj = stored_objects.load(call.api, call.kind, item)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _with_name(call: Call, list_options: options.ListOptions) -> options.ListOptions | api_errors.StatusError:
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


def watch(call: Call, list_options: options.ListOptions) -> Generator[Effect, Any, ServerResponse | WatchCursor]:
    with_name = _with_name(call, list_options)
    if isinstance(with_name, api_errors.StatusError):
        return responses.refused(call, with_name)
    resolved = reading.resolve_fields(call, with_name)
    if isinstance(resolved, api_errors.StatusError):
        return responses.refused(call, resolved)
    list_options = resolved
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
