"""Watches: a stream of changes of one resource, from a revision on, through selectors.

A :class:`Watch` is pulled, never pushed: whoever serves it asks for what was committed since the last time. It keeps
only a position, so a reader that does not read costs nothing, and if the history it still needs is compacted away it
ends with the 410 event that makes clients list again. The transport decides when to ask (``apiserver/shell.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.apiserver import options, reading, records, revisions, views
from headgate.apiserver.call import Call
from headgate.apiserver.custom.conversion import ConversionFailed, Conversions, Unconverted
from headgate.apiserver.followers import Interest
from headgate.apiserver.kinds.form import Form
from headgate.apiserver.kinds.kind import METADATA_LABELS
from headgate.apiserver.messages import Effect, Response, WebhookAnswer, WebhookCall
from headgate.apiserver.negotiation import JSON
from headgate.apiserver.tables import table_visits
from headgate.apiserver.warning_headers import warning_headers
from headgate.kube import fields, status
from headgate.store import Change, Compacted, Item, Page, Revision

_encoder: Final = msgspec.json.Encoder()
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
_BYTES_PER_VISIT: Final = 16
_MIN_TIMEOUT_S: Final = 1800
_CHANGES_AT_ONCE: Final = 1000  # a watch that is far behind must not copy the whole past to give out a piece of it


Ask = Callable[[WebhookCall, Callable[[WebhookAnswer], None]], None]


class Watch:
    """One open watch. ``pull`` yields encoded events; after ``ended`` it yields none."""

    def __init__(
        self, call: Call, wanted: options.ListOptions, since: Revision, failure: status.ApiError | None
    ) -> None:
        self._call: Final = call
        self._wanted: Final = wanted
        self._position = since
        self._failure = failure
        self._headers_sent = False
        self._spent_visits = 0  # since the last event was taken
        self._initial_due = bool(wanted.send_initial_events) and failure is None
        self._initial_begun = False
        self._initial_items: Sequence[Item] = ()
        self._initial_at = 0
        self._served: Final = _served_form(call)
        self._asking = False
        self.conversions: Conversions | None = None  # of a kind whose versions a webhook converts
        self.ask: Ask | None = None  # how that webhook is asked; set by who serves the watch
        self.ended = False
        self.behind = False  # the last `take` left something for the next
        self.resource: Final = call.kind.resource
        self.interest: Final = _interest(call, wanted)
        self.content_type: Final = JSON
        self.headers: Final = tuple(warning_headers(call.warnings))
        self.timeout_s: Final = float(wanted.timeout_s or _MIN_TIMEOUT_S)
        self.wants_bookmarks: Final = wanted.allow_bookmarks

    @property
    def position(self) -> Revision:
        """Everything up to here has been given out."""
        return self._position

    def take(self, limit_bytes: int) -> bytes:
        """Events that became visible since the last time, up to the one that reaches the limit.

        What the columns of a Table look at counts like bytes, so that costly rows come in smaller pieces.
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
        """Events that became visible since the last pull. Whoever stops in the middle goes on from there next time."""
        if self.ended or self._asking:
            return
        if self._failure is not None:
            yield self._end(self._failure)
            return
        while True:
            try:
                yield from self._events()
            except Unconverted as need:
                if self._wait_for(need):
                    return
            except ConversionFailed as problem:
                yield self._end(status.unknown_error(str(problem)))
                return
            else:
                break
        if self.conversions is not None:
            self.conversions.forget()
        if _served_form(self._call) is not self._served:
            self.ended = True  # its definition changed, or is gone: the client comes back and sees

    def _wait_for(self, need: Unconverted) -> bool:
        """Have objects converted; whether the answer is still to come."""
        if self.conversions is None or self.ask is None:
            raise ConversionFailed("nobody converts objects for this watch")
        conversions = self.conversions

        def tell(answer: WebhookAnswer) -> None:
            conversions.learn(need, answer)
            self._asking = False

        call = conversions.request(need)
        if call is not None:
            self._asking = True
            self.ask(call, tell)
        return self._asking

    def _events(self) -> Iterator[bytes]:
        yield from self._initial()
        store = self._call.api.store
        while self._position < store.committed:
            changes = store.changes(self.resource, self._position, _CHANGES_AT_ONCE)
            if isinstance(changes, Compacted):
                yield self._end(status.too_old_resource_version(self._position, changes.oldest))
                return
            for change in changes:
                event = self._event_of(change)
                self._position = change.revision
                if event is not None:
                    yield event
            if len(changes) < _CHANGES_AT_ONCE:
                self._position = max(self._position, store.committed)

    def catch_up(self, upto: Revision | None = None) -> None:
        """Pass over changes up to a revision (those that are committed), none of which concerns this watch."""
        if self._asking:  # what waits to be converted does
            return
        self._position = max(self._position, self._call.api.store.committed if upto is None else upto)

    def bookmark(self) -> bytes:
        """A sign of life that tells the client how far it has seen."""
        return self._encode("BOOKMARK", self._bookmark_object({}))

    def _initial(self) -> Iterator[bytes]:
        """The state at the first pull as ADDED events, then the bookmark that says it is complete."""
        if not self._initial_due:
            return
        call, store = self._call, self._call.api.store
        if not self._initial_begun:
            self._initial_begun = True
            page = store.page(self.resource, self._namespace(), at=None, after=None, limit=0)
            self._position = store.committed
            if isinstance(page, Page):  # the newest revision is never compacted
                self._initial_items = [item for item in page.items if self._selects(item)]
        records.gather(call.api, call.kind, self._initial_items[self._initial_at :])
        while self._initial_at < len(self._initial_items):
            event = self._encode("ADDED", records.serve(call.api, call.kind, self._initial_items[self._initial_at]))
            self._initial_at += 1
            yield event
        self._initial_items = ()
        self._initial_due = False
        if self._wanted.allow_bookmarks:
            yield self._encode("BOOKMARK", self._bookmark_object(_INITIAL_EVENTS_END))

    def _namespace(self) -> str | None:
        return self._call.namespace or None

    def _selects(self, item: Item | None) -> bool:
        if item is None:
            return False
        namespace = self._call.namespace
        if namespace and item.namespace != namespace:
            return False
        return reading.selected(self._call, item, self._wanted.label_selector, self._wanted.field_selector)

    def _event_of(self, change: Change) -> bytes | None:
        """An object that leaves the selection is DELETED for this watch, one that enters it is ADDED."""
        was = self._selects(change.previous)
        now = not change.deleted and self._selects(change.item)
        call = self._call
        if now:
            return self._encode("MODIFIED" if was else "ADDED", records.serve(call.api, call.kind, change.item))
        if not was or change.previous is None:
            return None
        if change.deleted:
            return self._encode("DELETED", records.serve(call.api, call.kind, change.item))
        return self._encode("DELETED", _restamped(call, change.previous, change.revision))

    def _bookmark_object(self, annotations: dict[str, str]) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self._position)}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._call.kind
        return records.tidy(self._call.api, kind, {"metadata": metadata})

    def _end(self, error: status.ApiError) -> bytes:
        self.ended = True
        return b'{"type":"ERROR","object":%s}\n' % _encoder.encode(error.body())

    def _encode(self, event: str, data: bytes | dict[str, Any]) -> bytes:
        view = self._call.output.view
        if view == "Table":
            data = self._as_table(data)
        elif view != "object":
            obj = msgspec.json.decode(data) if isinstance(data, bytes) else data
            data = views.partial(self._call.kind, obj, self._call.output.version)
        encoded = data if isinstance(data, bytes) else _encoder.encode(data)
        return b'{"type":"%s","object":%s}\n' % (event.encode(), encoded)

    def _as_table(self, data: bytes | dict[str, Any]) -> dict[str, Any]:
        obj = msgspec.json.decode(data) if isinstance(data, bytes) else data
        visits = table_visits(1)
        before = visits.left
        table = views.as_table(self._call, [obj], views.revision_of(obj), headers=not self._headers_sent, visits=visits)
        self._spent_visits += before - visits.left
        self._headers_sent = True
        return table.body() if isinstance(table, status.ApiError) else table


_ALWAYS_KEPT: Final = frozenset(each.label for each in METADATA_LABELS)


def _interest(call: Call, wanted: options.ListOptions) -> Interest:
    for each in wanted.field_selector.requirements:
        if each.operator == "=" and (call.kind.form is None or each.field in _ALWAYS_KEPT):
            return Interest(call.namespace, each.field, each.value)
    return Interest(call.namespace)


def _served_form(call: Call) -> Form | None:
    """The form in which objects of this kind are served now; None for built-in kinds, which never change."""
    if call.kind.form is None:
        return None
    kind = call.api.kinds.by_resource(call.kind.group, call.kind.version, call.kind.plural)
    return None if kind is None else kind.form


def _restamped(call: Call, item: Item, revision: Revision) -> dict[str, Any]:
    """The last state that the watcher knew, under the revision at which it left the selection."""
    obj = records.load(call.api, call.kind, item)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _narrowed(call: Call, wanted: options.ListOptions) -> options.ListOptions | status.ApiError:
    """The deprecated ``/watch/`` paths may name one object; a field selector must then ask for the same one."""
    name, selector = call.info.name, wanted.field_selector
    if not name:
        return wanted
    if not selector.is_everything:
        same = selector.exact("metadata.name") == name
        return wanted if same else status.bad_request("fieldSelector metadata.name doesn't match requested name")
    by_name = fields.FieldRequirement("metadata.name", "=", name)
    return msgspec.structs.replace(wanted, field_selector=fields.FieldSelector((by_name,)))


def watch(call: Call, wanted: options.ListOptions) -> Generator[Effect, Any, Response | Watch]:
    narrowed = _narrowed(call, wanted)
    if isinstance(narrowed, status.ApiError):
        return views.refused(call, narrowed)
    resolved = reading.resolve_fields(call, narrowed)
    if isinstance(resolved, status.ApiError):
        return views.refused(call, resolved)
    wanted = resolved
    included = views.include_object(call) if call.output.view == "Table" else None
    if isinstance(included, status.ApiError):
        return views.refused(call, included)
    revision = revisions.parse_revision(wanted.resource_version)
    if isinstance(revision, status.ApiError):
        return views.refused(call, status.unknown_error(revision.message))
    failure = None
    if wanted.send_initial_events and revision:
        failure = yield from reading.wait_for(call, revision)
    store = call.api.store
    since = revision or store.committed
    if not wanted.send_initial_events and since < store.oldest:
        failure = status.too_old_resource_version(since, store.oldest)
    return Watch(call, wanted, since, failure)
