"""Random creates, updates and applies by several managers: a real server's `managedFields` must be ours, byte for byte.

Each step starts from the object that the real server has, so that nothing but `kube/apply` is under test: our answer
is worked out from that object and the same request, with the tree's own decoding and defaults around it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.real_server import RealServer
from harness.server import Answer
from headgate import schemas as tables
from headgate.apimachinery.apply import ApplyResult, apply_config, keep_unchanged_times, parseable_type, track_update
from headgate.apimachinery.codec.codec import convert, wire_form
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.strategy import STRATEGIES
from headgate.kube.schema import Schemas
from real.apply_steps import SUBJECTS, Object, Step, Subject, laid_over, steps_of

pytestmark = pytest.mark.real

SCHEMAS = Schemas.load(tables.read())
NAMESPACE = "apply-differential"
SERVERS_OWN = ("resourceVersion", "generation", "managedFields", "uid", "creationTimestamp", "namespace")
_numbers = itertools.count()


class World:
    """One object on the real server, and the same writes through `kube/apply`."""

    def __init__(self, server: RealServer, subject: Subject) -> None:
        self.server, self.subject = server, subject
        self.name = f"a{next(_numbers)}"
        prefix = f"/apis/{subject.api_version}" if subject.group else f"/api/{subject.version}"
        place = f"/namespaces/{NAMESPACE}" if subject.namespaced else ""
        self.collection = f"{prefix}{place}/{subject.plural}"
        self.path = f"{self.collection}/{self.name}"
        self.live: Object | None = None
        self.strategy = STRATEGIES[(subject.group, subject.kind)]

    def reset(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        rules = self.strategy.subresources[subresource] if subresource else self.strategy.update
        return rules.reset_fields

    def base(self) -> Object:
        metadata = {"name": self.name, **({"namespace": NAMESPACE} if self.subject.namespaced else {})}
        return {"apiVersion": self.subject.api_version, "kind": self.subject.kind, "metadata": metadata}

    def send(self, method: str, path: str, body: Object, content_type: str = "application/json") -> Answer:
        return self.server.request(method, path, {"Content-Type": content_type}, json.dumps(body).encode())

    def typed(self, obj: Object) -> Object:
        """Decoded, defaulted, printed; the entries as they are, for they may be explicitly empty."""
        decoded = convert(SCHEMAS, self.subject.type_name, obj)
        assert decoded.error is None, decoded.error
        default = DEFAULTERS.get((self.subject.group, self.subject.version, self.subject.kind))
        if default is not None:
            default(decoded.obj)
        return wire_form(SCHEMAS, self.subject.type_name, decoded.obj)

    def run(self, step: Step) -> None:
        if step.how == "put":
            self.create(step) if self.live is None else self.put(step)
        elif self.live is not None or not step.subresource:
            self.apply(step)

    def create(self, step: Step) -> None:
        body = laid_over(self.base(), self.subject.first)
        for piece in step.pieces if not step.subresource else ():
            body = laid_over(body, piece)
        answer = self.send("POST", f"{self.collection}?fieldManager={step.manager}", body)
        if answer.status == 201:
            self.compare(track_update(parseable_type(SCHEMAS, self.subject.type_name), None, self.typed(body),
                                      manager=step.manager, api_version=self.subject.api_version,
                                      now=newest(answer.json()), reset=self.reset("")), answer.json())  # fmt: skip

    def put(self, step: Step) -> None:
        assert self.live is not None
        body = self.live
        for piece in step.pieces:
            body = laid_over(body, piece)
        body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}
        answer = self.send("PUT", f"{self.endpoint(step)}?fieldManager={step.manager}", body)
        if answer.status == 200:
            real = answer.json()
            mine = track_update(parseable_type(SCHEMAS, self.subject.type_name), self.live, self.typed(body),
                                manager=step.manager, api_version=self.subject.api_version,
                                subresource=step.subresource, now=newest(real),
                                reset=self.reset(step.subresource))  # fmt: skip
            self.compare(mine, real)

    def endpoint(self, step: Step) -> str:
        return f"{self.path}/{step.subresource}" if step.subresource else self.path

    def apply(self, step: Step) -> None:
        config = self.base() if self.live is not None else laid_over(self.base(), self.subject.first)
        for piece in step.pieces:
            config = laid_over(config, piece)
        force = step.how == "force"
        path = f"{self.endpoint(step)}?fieldManager={step.manager}&force={json.dumps(force)}"
        answer = self.send("PATCH", path, config, "application/apply-patch+yaml")
        real = answer.json()
        now = newest(real) if answer.status < 300 else ""
        mine = apply_config(parseable_type(SCHEMAS, self.subject.type_name), self.live, config, manager=step.manager,
                            api_version=self.subject.api_version, subresource=step.subresource, force=force,
                            now=now, reset=self.reset(step.subresource))  # fmt: skip
        if answer.status in (200, 201):
            assert isinstance(mine, ApplyResult), (mine, config)
            assert self.content(self.typed(mine.obj), step) == self.content(real, step), config
            self.compare(mine.obj, real)
        elif answer.status in (400, 409, 500):
            assert not isinstance(mine, ApplyResult), (real, config)
            assert in_order(mine.error.body()) == in_order(real)

    def content(self, obj: Object, step: Step) -> Object:
        """What the step may change, without what the server writes by itself."""
        parts = (step.subresource,) if step.subresource else tuple(name for name in obj if name != "status")
        out = {name: obj.get(name) or {} for name in parts}
        if "metadata" in out:
            out["metadata"] = {name: value for name, value in out["metadata"].items() if name not in SERVERS_OWN}
        for part in {"spec", "status"} & out.keys():
            out[part] = {name: value for name, value in out[part].items() if name not in self.subject.unowned}
        return out

    def compare(self, mine: Object, real: Object) -> None:
        if self.live is not None and real["metadata"]["resourceVersion"] == self.live["metadata"]["resourceVersion"]:
            entries = mine["metadata"].get("managedFields", [])
            mine = keep_unchanged_times({**real, "metadata": {**real["metadata"], "managedFields": entries}}, self.live)
        # As text: the order of entries and of fields counts too.
        expected = json.dumps(real["metadata"].get("managedFields", []))
        assert json.dumps(mine["metadata"].get("managedFields", [])) == expected
        self.live = real

    def remove(self) -> None:
        if self.live is not None:
            self.send("PATCH", self.path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            self.server.request("DELETE", f"{self.path}?gracePeriodSeconds=0")


def newest(obj: Object) -> str:
    """The time of the write, if it set one: no other entry can have a later time."""
    times = [entry["time"] for entry in obj["metadata"].get("managedFields", []) if "time" in entry]
    return max(times, default="2000-01-01T00:00:00Z")


def in_order(status: Object) -> Object:
    """The real server lists the causes of several owners in no particular order."""
    causes = status.get("details", {}).get("causes", [])
    return {**status, "details": sorted(causes, key=lambda cause: (cause["message"], cause["field"]))}


@pytest.fixture(scope="module")
def server(real_server: RealServer) -> RealServer:
    body = json.dumps({"metadata": {"name": NAMESPACE}}).encode()
    real_server.request("POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, body)
    return real_server


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.kind)
def test_managers_own_the_same_fields_as_on_a_real_server(subject: Subject, server: RealServer) -> None:
    @settings(max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def play(data: Any) -> None:
        world = World(server, subject)
        for step in data.draw(steps_of(subject)):
            world.run(step)
        world.remove()

    play()
