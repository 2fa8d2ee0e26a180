"""Two hundred watchers with selectors, disconnected at random, while the past is compacted under them.

Every stream must be the history filtered by its selector: each change once, in order, as ADDED, MODIFIED or DELETED
from that watcher's point of view. What it should have been is computed slowly from a log that is written from the
answers to the writers, by predicates that share no code with the server. A watch from a revision older than the
compacted one gets 410, and no other does.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from embedded import Embedded
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.store import Revision

NAMESPACES = ("a", "b", "c")
APPS = ("red", "green", "blue", "grey")
TIERS = ("front", "back", "")
NAMES = 12

Labels = dict[str, str]
Seen = tuple[str, str, str, int, str]
"""Type, namespace, name, revision, and what the object said."""


class State(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    labels: Labels
    said: str


class Entry(msgspec.Struct, frozen=True):
    """One write, as its writer knows it."""

    revision: int
    before: State | None
    after: State | None


Predicate = Callable[[State], bool]


class Question(msgspec.Struct, frozen=True):
    """What a watcher asks for, in the API's words and in plain code."""

    path: str
    query: dict[str, str]
    matches: Predicate


def draw_question(chance: random.Random) -> Question:
    tests: list[Predicate] = []
    labels: list[str] = []
    fields: list[str] = []
    app, other = chance.sample(APPS, 2)
    label_choices: list[tuple[str, Predicate]] = [
        (f"app={app}", lambda state: state.labels.get("app") == app),
        (f"app!={app}", lambda state: state.labels.get("app") != app),
        (f"app in ({app},{other})", lambda state: state.labels.get("app") in (app, other)),
        (f"app notin ({app},{other})", lambda state: state.labels.get("app") not in (app, other)),
        ("tier", lambda state: "tier" in state.labels),
        ("!tier", lambda state: "tier" not in state.labels),
        ("tier=front", lambda state: state.labels.get("tier") == "front"),
    ]
    for text, test in chance.sample(label_choices, chance.choice((0, 1, 2, 2, 3))):
        labels.append(text)
        tests.append(test)
    if chance.random() < 0.2:
        name = f"n{chance.randrange(NAMES)}"
        fields.append(f"metadata.name={name}")
        tests.append(lambda state: state.name == name)
    path = "/api/v1/configmaps"
    if chance.random() < 0.7:
        namespace = chance.choice(NAMESPACES)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        tests.append(lambda state: state.namespace == namespace)
    query = {"labelSelector": ",".join(labels), "fieldSelector": ",".join(fields)}
    return Question(path, {key: text for key, text in query.items() if text}, lambda s: all(test(s) for test in tests))


class History:
    """What was written, from the answers."""

    def __init__(self, chance: random.Random) -> None:
        self.server = Embedded(namespace="")
        for namespace in NAMESPACES:
            self.server.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.entries: list[Entry] = []
        self.world: dict[tuple[str, str], State] = {}
        self._revisions: list[int] = []
        self._chance = chance

    def write(self) -> None:
        chance = self._chance
        namespace, name = chance.choice(NAMESPACES), f"n{chance.randrange(NAMES)}"
        before = self.world.get((namespace, name))
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        if before is not None and chance.random() < 0.2:
            assert self.server.delete(f"{path}/{name}").status == 200
            revision, after = self.server.api.store.committed, None
            del self.world[namespace, name]
        else:
            labels = {"app": chance.choice(APPS), "tier": chance.choice(TIERS)}
            after = State(namespace, name, {k: v for k, v in labels.items() if v}, f"{len(self.entries)}")
            body = {"metadata": {"name": name, "labels": after.labels}, "data": {"said": after.said}}
            put = self.server.post(path, body) if before is None else self.server.put(f"{path}/{name}", body)
            assert put.status in (200, 201), put
            revision = Revision(int(put.body["metadata"]["resourceVersion"]))
            self.world[namespace, name] = after
        self.entries.append(Entry(revision, before, after))
        self._revisions.append(revision)

    def between(self, after: int, upto: int) -> list[Entry]:
        return self.entries[bisect_right(self._revisions, after) : bisect_right(self._revisions, upto)]


def expected(question: Question, entries: list[Entry]) -> Iterator[Seen]:
    for entry in entries:
        was = entry.before is not None and question.matches(entry.before)
        now = entry.after is not None and question.matches(entry.after)
        if now and entry.after is not None:
            state, event = entry.after, "MODIFIED" if was else "ADDED"
        elif was and entry.before is not None:
            state, event = entry.before, "DELETED"
        else:
            continue
        yield event, state.namespace, state.name, entry.revision, state.said


def seen(event: str, obj: dict[str, Any]) -> Seen:
    metadata = obj["metadata"]
    return event, metadata["namespace"], metadata["name"], int(metadata["resourceVersion"]), obj["data"]["said"]


class Watcher:
    def __init__(self, history: History, question: Question) -> None:
        self._history = history
        self._question = question
        self._watch: WatchCursor | None = None
        self._known = 0  # the newest revision that this client has received
        self._since = 0  # where the open watch began
        self._upto = 0  # what it had the chance to see
        self._got: list[Seen] = []
        self.delivered = 0
        self.expired = 0
        self.relist()

    @property
    def position(self) -> int:
        """From where the next change is due; a watch that is closed will go on from what its client knows."""
        return self._known if self._watch is None else self._upto

    def relist(self) -> None:
        """A list must be the state of its revision; from there the next watch goes on."""
        answer = self._history.server.get(self._question.path, **self._question.query)
        wanted = {state.said for state in self._history.world.values() if self._question.matches(state)}
        assert {item["data"]["said"] for item in answer.body["items"]} == wanted
        self._known = int(answer.body["metadata"]["resourceVersion"])

    def connect(self) -> None:
        self._watch = self._history.server.watch(
            self._question.path, resourceVersion=str(self._known), **self._question.query
        )
        self._since = self._upto = self._known
        self._got = []

    def pull(self, limit: int | None = None) -> None:
        """Takes what there is, or, as a slow reader, only so many events."""
        if self._watch is None:
            self.connect()
        assert self._watch is not None
        store = self._history.server.api.store
        decoded = [msgspec.json.decode(line) for line in islice(self._watch.pull(), limit)]
        came = [(event["type"], event["object"]) for event in decoded]
        if self._upto < store.oldest:
            assert [(event, obj["code"]) for event, obj in came] == [("ERROR", 410)], "too old, and not told so"
            assert self._watch.ended
            self.expired += 1
            self.disconnect()
            self.relist()
            return
        assert not self._watch.ended, "told to list again without need"
        self._upto = self._watch.position
        assert self._upto == store.committed or limit == len(came), "something is held back"
        self._got += [seen(event, obj) for event, obj in came]
        self.delivered += len(came)

    def disconnect(self) -> None:
        """What came since the watch was opened must be what happened."""
        if self._watch is None:
            return
        wanted = list(expected(self._question, self._history.between(self._since, self._upto)))
        assert self._got == wanted, f"{self._question.path} {self._question.query} from {self._since} to {self._upto}"
        if self._got:
            self._known = max(self._known, self._got[-1][3])
        self._watch, self._got = None, []


class Outcome(msgspec.Struct, frozen=True):
    delivered: int
    writes: int
    expired: int
    compactions: int


def run(
    deliveries: int, watchers: int = 200, seed: int = 1, report: Callable[[int], None] = lambda done: None
) -> Outcome:
    chance = random.Random(seed)
    history = History(chance)
    store = history.server.api.store
    crowd = [Watcher(history, draw_question(chance)) for _ in range(watchers)]
    compactions = delivered = 0
    while delivered < deliveries:
        for _ in range(chance.randrange(1, 20)):
            history.write()
        if chance.random() < 0.15:  # to where some watcher is, or right beside it: that is where mistakes are made
            store.compact(Revision(chance.choice(crowd).position + chance.choice((-1, 0, 0, 1, 20))))
            compactions += 1
        for watcher in chance.sample(crowd, watchers // 3):
            watcher.pull(limit=chance.choice((None, None, None, 1, 5)))
            if chance.random() < 0.05:
                watcher.disconnect()
        delivered = sum(watcher.delivered for watcher in crowd)
        report(delivered)
    for watcher in crowd:
        watcher.pull()
        watcher.disconnect()
    return Outcome(delivered, len(history.entries), sum(watcher.expired for watcher in crowd), compactions)
