"""``headgate up`` killed with SIGKILL again and again, under eight writers, two watchers and a reader.

Each writer has its own keys and one request in flight, so after a kill it knows both possible states: the last answer,
or the request without an answer. The history of each key, as its writer recorded it, must equal what each watcher saw,
event for event, over all servers it resumed on. A state that a client saw is never lost, and the revision of a list
never decreases.
"""

from __future__ import annotations

import abc
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from harness.embedded_server import HEADGATE
from torture.https_client import Client, Lost, Target

WRITERS = 8
KEYS = 4
MAPS = "/api/v1/namespaces/default/configmaps"
MINE = "torture=yes"

WriteHistory = list[tuple[str, int]]
"""What happened to one key, in order: event type, and the number that its writer gave to the write."""


class Outcome(msgspec.Struct):
    kills: int = 0
    answered: int = 0
    in_doubt: int = 0
    survived: int = 0
    """Requests in doubt that had been carried out."""
    events: int = 0
    backups: int = 0
    start_s: list[float] = []


class Actor(threading.Thread, abc.ABC):
    """Works until the target is closed, on one server after the other. The first problem is kept for the judge."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self._target = target
        self._generation = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while (found := self._target.current(self._generation)) is not None:
                self._generation, cluster = found
                client = Client(cluster)
                try:
                    self.work(client)
                except Lost:
                    continue
                finally:
                    client.close()
        except BaseException as problem:
            self.problem = problem

    @abc.abstractmethod
    def work(self, client: Client) -> None:
        """Until the target is closed, or the server is lost."""


class Writer(Actor):
    def __init__(self, target: Target, number: int, seed: int) -> None:
        super().__init__(target)
        self._number = number
        self._chance = random.Random(seed * 100 + number)
        self._count = 0
        self._doubt: tuple[str, str, int] | None = None
        self.present: dict[str, int] = {}
        self.histories: dict[str, WriteHistory] = {}
        self.vanished: set[tuple[str, int]] = set()
        self.outcome = Outcome()

    def work(self, client: Client) -> None:
        if self._doubt is not None:
            self._resolve(client, *self._doubt)
        while not self._target.closed:
            self._write(client)

    def _write(self, client: Client) -> None:
        name = f"w{self._number}-{self._chance.randrange(KEYS)}"
        self._count += 1
        body = {
            "metadata": {"name": name, "labels": {"torture": "yes"}},
            "data": {"count": str(self._count), "filling": "x" * self._chance.choice((0, 100, 5000))},
        }
        if name not in self.present:
            event, method, path = "ADDED", "POST", MAPS
        elif self._chance.random() < 0.2:
            event, method, path = "DELETED", "DELETE", f"{MAPS}/{name}"
        else:
            event, method, path = "MODIFIED", "PUT", f"{MAPS}/{name}"
        self._doubt = (name, event, self._count)
        status, answer = client.ask(method, path, None if method == "DELETE" else body)
        assert status in (200, 201), (method, path, status, answer)
        self._happened(name, event, self._count)
        self.outcome.answered += 1

    def _happened(self, name: str, event: str, count: int) -> None:
        self._doubt = None
        history = self.histories.setdefault(name, [])
        if event == "DELETED":
            history.append((event, self.present.pop(name)))
        else:
            self.present[name] = count
            history.append((event, count))

    def _resolve(self, client: Client, name: str, event: str, count: int) -> None:
        """Either the request in doubt was carried out, or everything is as it was last answered."""
        status, found = client.ask("GET", f"{MAPS}/{name}")
        assert status in (200, 404), (status, found)
        now = int(found["data"]["count"]) if status == 200 else None
        self.outcome.in_doubt += 1
        if now == (None if event == "DELETED" else count) and now != self.present.get(name):
            self._happened(name, event, count)
            self.outcome.survived += 1
            return
        assert now == self.present.get(name), f"{name}: {now} is there, {self.present.get(name)} was answered"
        self._doubt = None
        if event != "DELETED":
            self.vanished.add((name, count))


class Watcher(Actor):
    def __init__(self, target: Target, query: str) -> None:
        super().__init__(target)
        self._query = query
        self._revision = ""
        self.histories: dict[str, WriteHistory] = {}
        self.events = 0

    def begin(self, client: Client) -> None:
        """Lists before the first write; everything after that comes from watches."""
        status, listed = client.ask("GET", f"{MAPS}?{self._query}")
        assert status == 200
        self._revision = listed["metadata"]["resourceVersion"]

    def work(self, client: Client) -> None:
        for event in client.watch(f"{MAPS}?watch=1&{self._query}&resourceVersion={self._revision}"):
            self._take(event["type"], event["object"])

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        assert kind != "ERROR", obj
        metadata = obj["metadata"]
        assert int(metadata["resourceVersion"]) > int(self._revision), "an event came again, or out of order"
        self._revision = metadata["resourceVersion"]
        if "torture" in metadata.get("labels", {}):
            self.histories.setdefault(metadata["name"], []).append((kind, int(obj["data"]["count"])))
            self.events += 1


class Reader(Actor):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._revision = 0
        self.seen: set[tuple[str, int]] = set()

    def work(self, client: Client) -> None:
        while not self._target.closed:
            status, listed = client.ask("GET", f"{MAPS}?labelSelector={MINE}")
            assert status == 200
            revision = int(listed["metadata"]["resourceVersion"])
            assert revision >= self._revision, f"revisions went back from {self._revision} to {revision}"
            self._revision = revision
            self.seen.update((item["metadata"]["name"], int(item["data"]["count"])) for item in listed["items"])


def run(root: Path, kills: int, seed: int = 1, report: Callable[[int], None] = lambda done: None) -> Outcome:
    chance = random.Random(seed)
    target = Target(root / "data")
    writers = [Writer(target, number, seed) for number in range(WRITERS)]
    watchers = [Watcher(target, ""), Watcher(target, f"labelSelector={MINE}")]
    reader = Reader(target)
    actors: list[Actor] = [*writers, *watchers, reader]
    outcome = Outcome()
    cluster = target.start()
    first = Client(cluster)
    for watcher in watchers:
        watcher.begin(first)
    first.close()
    for actor in actors:
        actor.start()
    try:
        while outcome.kills < kills and not any(actor.problem for actor in actors):
            backup = _start_backup(root, outcome.kills) if outcome.kills % 10 == 5 else None
            time.sleep(chance.uniform(0.02, 0.6))  # when the kill comes is left to chance
            cluster.process.kill()
            cluster.process.communicate()
            outcome.kills += 1
            if backup is not None:
                outcome.backups += _finish_backup(root, backup)
            began_s = time.monotonic()
            cluster = target.start()
            outcome.start_s.append(time.monotonic() - began_s)
            report(outcome.kills)
        _let_everybody_finish(target, writers, watchers)
        code, _, errors = cluster.stop()
        assert (code, errors) == (0, "")
    finally:
        target.close()
        with cluster:
            pass
    for actor in actors:
        actor.join(60)
        assert not actor.is_alive()
        if actor.problem is not None:
            raise actor.problem
    _judge(writers, watchers, reader, outcome)
    return outcome


def _let_everybody_finish(target: Target, writers: list[Writer], watchers: list[Watcher]) -> None:
    """Writers stop after one more answer; watchers go on until they have seen all that there is."""
    before = [writer.outcome.answered for writer in writers]
    _wait(
        lambda: all(
            writer.problem is not None or writer.outcome.answered > count
            for writer, count in zip(writers, before, strict=True)
        )
    )
    found = target.current(0)
    assert found is not None
    target.close()
    for writer in writers:
        writer.join(60)
    client = Client(found[1])
    client.ask("POST", MAPS, {"metadata": {"name": "the-end", "labels": {"torture": "yes"}}, "data": {"count": "0"}})
    client.close()
    _wait(lambda: all(watcher.problem is not None or "the-end" in watcher.histories for watcher in watchers))
    for watcher in watchers:
        watcher.histories.pop("the-end", None)


def _wait(ready: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline_s, "nothing happens any more"
        time.sleep(0.02)


def _start_backup(root: Path, number: int) -> tuple[Path, subprocess.Popen[str]]:
    file = root / f"backup-{number}.db"
    command = [str(HEADGATE), "backup", str(file), "--data", str(root / "data")]
    return file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish_backup(root: Path, backup: tuple[Path, subprocess.Popen[str]]) -> int:
    """The server was killed somewhere in between; the backup does not depend on it."""
    file, process = backup
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    check = subprocess.run([str(HEADGATE), "check", str(file)], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout
    file.unlink()
    return 1


def _judge(writers: list[Writer], watchers: list[Watcher], reader: Reader, outcome: Outcome) -> None:
    stories = {name: history for writer in writers for name, history in writer.histories.items()}
    for watcher in watchers:
        assert watcher.histories.keys() == stories.keys()
        for name, history in stories.items():
            assert watcher.histories[name] == history, f"{name}: a watcher saw another story than its writer wrote"
        outcome.events += watcher.events
    for writer in writers:
        assert not writer.vanished & reader.seen, "something was read and then gone"
        outcome.answered += writer.outcome.answered
        outcome.in_doubt += writer.outcome.in_doubt
        outcome.survived += writer.outcome.survived
