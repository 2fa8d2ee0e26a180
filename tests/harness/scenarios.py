"""Scenarios: actions of users and the reactions of controllers, run on two clusters and compared.

A scenario is a function of a :class:`ScenarioCluster`. It acts, waits for what must happen, and records what it sees.
Scenarios run in parallel, each in its own namespaces, because controllers take time. The records are compared in order.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.compare import Difference, Seen, differences
from harness.normalise import Normaliser
from harness.server import JSON_TYPE, Answer, Server
from harness.server_pair import namespace_of

PATIENCE_S = 85.0
MERGE = {"Content-Type": "application/merge-patch+json"}
Object = dict[str, Any]


class ScenarioCluster:
    """One cluster as one scenario sees it. `ns` is a namespace that the scenario has for itself; it may make more."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.ns = namespace_of(name)
        self.notes: list[tuple[str, Any]] = []
        self._normaliser = Normaliser(server.address)

    # -- acting ----------------------------------------------------------------------------------------------------

    def make_namespace(self, name: str = "", **rest: Any) -> Object:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name or self.ns}, **rest}
        return self.post("/api/v1/namespaces", body)

    def post(self, path: str, body: Object) -> Object:
        return self._send("POST", path, body, JSON_TYPE)

    def patch(self, path: str, body: Object) -> Object:
        return self._send("PATCH", path, body, MERGE)

    def delete(self, path: str, policy: str | None = None) -> Object:
        return self._send("DELETE", path, {"propagationPolicy": policy} if policy else {}, JSON_TYPE)

    def kubectl(self, line: str) -> None:
        """Runs and notes a command of kubectl, which waits as it waits for people."""
        done = self.server.kubectl(["-n", self.ns, *line.split()])
        self.note(f"kubectl {line}", [done.exit, done.stdout, done.stderr])

    def _send(self, method: str, path: str, body: Object, headers: Mapping[str, str]) -> Object:
        answer = self.server.request(method, path, headers, json.dumps(body).encode())
        assert answer.status < 300, f"{self.server.name}: {method} {path}: {answer.status} {answer.body!r}"
        sent: Object = answer.json()
        return sent

    # -- seeing ----------------------------------------------------------------------------------------------------

    def core(self, plural: str, name: str = "", namespace: str = "") -> str:
        """The path of a collection, or of an object, of the core group in the scenario's namespace."""
        return f"/api/v1/namespaces/{namespace or self.ns}/{plural}" + (f"/{name}" if name else "")

    def get(self, path: str) -> Answer:
        return self.server.request("GET", path)

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.get(path).json()["items"]
        return found

    def until(self, what: str, condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline_s, f"{self.server.name}: it never happened that {what}"
            time.sleep(0.1)

    def until_gone(self, *paths: str) -> None:
        for path in paths:
            self.until(f"{path} is gone", partial(self.is_gone, path))

    def is_gone(self, path: str) -> bool:
        return self.get(path).status == 404

    def note(self, title: str, value: Any) -> None:
        self.notes.append((title, self._normaliser.value(value)))

    def note_object(self, path: str) -> None:
        self.note(f"GET {path}", self.get(path).json())

    def note_all(self, path: str) -> None:
        """Every object of a collection, by name. Objects that every namespace has are left out."""
        found = [each for each in self.items(path) if each["metadata"]["name"] not in IN_EVERY_NAMESPACE]
        self.note(f"GET {path}", {"items": sorted(found, key=lambda each: str(each["metadata"]["name"]))})


IN_EVERY_NAMESPACE = ("kube-root-ca.crt", "default")
ScenarioFunction = Callable[[ScenarioCluster], None]


@dataclass(frozen=True)
class Scenario:
    """`prepare` runs before the controllers start, or first where they run already."""

    name: str
    run: ScenarioFunction
    prepare: ScenarioFunction | None = None


@dataclass
class ScenarioResult:
    """What a scenario recorded on one cluster, and the failure that ended it."""

    notes: list[tuple[str, Any]] = field(default_factory=list)
    failure: str = ""


class ScenarioRunner:
    """Runs scenarios on one cluster, all at the same time or at most ``at_once``."""

    def __init__(
        self,
        server: Server,
        scenarios: Sequence[Scenario],
        make: Callable[[Server, str], ScenarioCluster] = ScenarioCluster,
        at_once: int | None = None,
    ) -> None:
        self._clusters = {scenario.name: make(server, scenario.name) for scenario in scenarios}
        self._scenarios = scenarios
        self._threads = ThreadPoolExecutor(at_once or max(1, len(scenarios)))

    def prepare(self) -> None:
        for scenario in self._scenarios:
            if scenario.prepare is not None:
                scenario.prepare(self._clusters[scenario.name])

    def start(self) -> Callable[[], dict[str, ScenarioResult]]:
        """Starts them all; call what is returned to wait for their ends."""
        futures = {scenario.name: self._threads.submit(self._run, scenario) for scenario in self._scenarios}
        return lambda: {name: future.result() for name, future in futures.items()}

    def _run(self, scenario: Scenario) -> ScenarioResult:
        cluster = self._clusters[scenario.name]
        try:
            scenario.run(cluster)
        except (AssertionError, KeyError, ValueError, OSError, subprocess.TimeoutExpired) as trouble:
            return ScenarioResult(cluster.notes, f"{type(trouble).__name__}: {trouble}")
        return ScenarioResult(cluster.notes)

    def close(self) -> None:
        self._threads.shutdown()


def compare_results(name: str, real: ScenarioResult, ours: ScenarioResult) -> Iterator[Difference]:
    """The differences between two runs of a scenario."""
    yield from differences(name, "how it went", _seen(real.failure), _seen(ours.failure))
    for (title, one), (other_title, other) in zip(real.notes, ours.notes, strict=False):
        yield from differences(name, title, _seen([title, one]), _seen([other_title, other]))


def _seen(value: Any) -> Seen:
    return Seen(200, {}, value)
