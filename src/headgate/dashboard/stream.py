"""Server-sent events of one viewer: the changes of the views since the revision that the viewer has.

Nothing is queued for a viewer. When its connection can take more, the changes since the last event are read from the
views, so a slow viewer gets fewer and larger events and costs no memory. A viewer that resumes with a revision that is
too old, or of another process, gets the event ``reset`` with all rows. The units that wait are not sent: the page asks
for the rows that it shows (``views/waiting_pages.py``), and an event says that they have changed. The event
``connection`` says that the API server is not reached, or is reached again: until then the rows are old.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.client.connection import Connection
from headgate.dashboard.rights import ViewerRights, visible
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import TOPICS, Row, Topic

COMMENT_S: Final = 15.0
COMMENT: Final = b": the connection is open\n\n"
_encode: Final = msgspec.json.Encoder().encode


class ViewerStream:
    """``epoch``: names the process and its views; revisions of another epoch mean nothing here."""

    def __init__(self, topics: Iterable[Topic], rights: ViewerRights, last_id: str = "") -> None:
        self.topics: Final[tuple[Topic, ...]] = tuple(topics)
        self.rights: ViewerRights = rights
        self._last_id = last_id
        self._connection = Connection()  # what the viewer knows
        self._sent: dict[Topic, set[str]] = {}  # the keys that the viewer has; not kept for one that sees everything

    @property
    def last_id(self) -> str:
        return self._last_id

    def set_rights(self, rights: ViewerRights) -> None:
        """With other rights the viewer gets all rows again."""
        if rights != self.rights:
            self.rights, self._last_id = rights, ""

    def next_event(self, views: ClusterViews, epoch: str) -> bytes:
        """The next event; empty if nothing changed."""
        name, _, number = self._last_id.partition(".")
        is_known = name == epoch and number.isdigit() and (self.rights.everything or bool(self._sent))
        known = int(number) if is_known else -1
        is_known = is_known and known <= views.revision
        if known == views.revision:
            return b""
        body: dict[str, Any] | None = self._changes(views, known) if is_known else None
        event = "change"
        if body is None:
            event, body = "reset", self._all(views)
        self._last_id = f"{epoch}.{views.revision}"
        if event == "change" and not body:
            return b""
        return encode_event(event, {"revision": views.revision, "topics": body}, self._last_id)

    def next_connection_event(self, connection: Connection) -> bytes:
        """Empty if the viewer knows it. The reason names addresses, and is for viewers who see everything."""
        if not self.rights.everything and connection.problem:
            connection = Connection("the API server does not answer", connection.since_s)
        if connection == self._connection:
            return b""
        self._connection = connection
        return encode_event("connection", connection)

    def _changes(self, views: ClusterViews, known: int) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for topic in self.topics:
            if views.topic_revision(topic) <= known:
                continue
            if topic == "waiting":
                found[topic] = self._waiting(views)
                continue
            changes = views.changes_since(topic, known)
            if changes is None:
                return None
            rows, removed = self._seen(topic, changes.upserts), list(changes.removed)
            if not self.rights.everything:
                sent = self._sent.setdefault(topic, set())
                removed = [key for key in removed if key in sent]
                sent.difference_update(removed)
                sent.update(row.key for row in rows)
            if rows or removed:
                found[topic] = {"rows": rows, "removed": removed}
        return found

    def _all(self, views: ClusterViews) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._sent = {}
        for topic in self.topics:
            if topic == "waiting":
                found[topic] = self._waiting(views)
                continue
            rows = self._seen(topic, views.rows(topic))
            found[topic] = {"rows": rows, "removed": []}
            if not self.rights.everything:
                self._sent[topic] = {row.key for row in rows}
        return found

    def _waiting(self, views: ClusterViews) -> dict[str, int]:
        """The number of units is for viewers who see all of them."""
        found = {"revision": views.topic_revision("waiting")}
        return {**found, "units": views.count("waiting")} if self.rights.everything else found

    def _seen(self, topic: Topic, rows: Iterable[Row]) -> list[Row]:
        return [seen for row in rows if (seen := visible(row, self.rights)) is not None]


def encode_event(event: str, data: object, id_: str = "") -> bytes:
    """One event. JSON has no line breaks, so the data is one line."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {event}\ndata: ".encode() + _encode(data) + b"\n\n"


def read_topics(text: str) -> tuple[Topic, ...] | str:
    """Names of topics, separated by commas; all of them for an empty text. A returned string is the problem."""
    named = [each for each in text.split(",") if each]
    if unknown := [each for each in named if each not in TOPICS]:
        return f"there is no topic {', '.join(unknown)}; the topics are {', '.join(TOPICS)}"
    return tuple(topic for topic in TOPICS if not named or topic in named)
