"""A failure of a controller affects only the key on which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from event_loops import Run, on_both_loops
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import EmitEvent, Get
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    Result,
    WatchSpec,
)
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.kube.api_resources import CONFIG_MAPS, APIResource
from unit.runtime.serving import MAPS, Object, a_server, ask, running, until, with_namespace

NO_KEY: Any = ["cannot be hashed"]
NO_TIME: Any = "soon"
SECRETS = APIResource("", "v1", "secrets", namespaced=True)


class RecordingController(Controller):
    """Works on every ConfigMap by its name; what it does about one named ``bad`` is up to the test."""

    def __init__(self, name: str = "keeper") -> None:
        self.name = name
        self.worked: list[str] = []
        self.left = 3  # so many failures

    def fails(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(CONFIG_MAPS, frozenset({"data"})),)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return (Enqueue(obj["metadata"]["name"]),)

    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        yield Get(CONFIG_MAPS, "default", str(key))
        self.worked.append(key)
        return Done()


class FailsOnEvent(RecordingController):
    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if obj["metadata"]["name"] == "bad" and self.fails():
            raise RuntimeError("a bug")
        return super().applied(resource, obj, now_s)


class FailsWhileNamingKeys(RecordingController):
    """It names its keys one by one, and fails half-way."""

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterator[Enqueue]:
        name = obj["metadata"]["name"]
        if name == "bad":
            yield Enqueue("before")
            if self.fails():
                raise IndexError("a bug")
        yield Enqueue(name)


class NamesAKeyThatIsNone(RecordingController):
    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        broken = name == "bad" and self.fails()
        return ([Enqueue(NO_KEY)] if broken else []) + [Enqueue(name)]


class NamesATimeThatIsNone(RecordingController):
    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        broken: Any = "soon" if name == "bad" and self.fails() else 0.0
        return (Enqueue(name, broken), Enqueue(f"{name}-more"))


class FailsAtTheStartOfWork(RecordingController):
    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        if key == "bad" and self.fails():
            raise AssertionError("a bug")
        return super().reconcile(key, now_s)


class EndsWithout(RecordingController):
    """The work on ``bad`` ends with a given thing at first."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        steps = super().reconcile(key, now_s)
        if key == "bad" and self.fails():
            yield Get(CONFIG_MAPS, "default", "bad")
            ended: Result = self.result
            return ended
        return (yield from steps)


BROKEN = [
    FailsOnEvent(),
    FailsWhileNamingKeys(),
    NamesAKeyThatIsNone(),
    NamesATimeThatIsNone(),
    FailsAtTheStartOfWork(),
    EndsWithout(None),
    EndsWithout("done"),
    EndsWithout(Done([Enqueue(NO_KEY), Enqueue("woken")])),
    EndsWithout(RequeueAfter(NO_TIME)),
]


@on_both_loops
@pytest.mark.parametrize("number", range(len(BROKEN)), ids=[type(each).__name__ for each in BROKEN])
def test_a_failure_costs_its_key_which_is_tried_again(run: Run, number: int, caplog: pytest.LogCaptureFixture) -> None:
    broken, other = BROKEN[number], RecordingController("other")
    broken.left, broken.worked = 3, []

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            for name in ("bad", "good"):
                await ask(server, "POST", MAPS, {"metadata": {"name": name}})
            async with running(server, broken, other):
                await until(lambda: "good" in broken.worked)
                assert sorted(other.worked) == ["bad", "good"]
                await until(lambda: "bad" in broken.worked)
                await ask(server, "POST", MAPS, {"metadata": {"name": "next"}})
                await until(lambda: "next" in broken.worked)
                await until(lambda: "next" in other.worked)
                assert other.worked.count("good") == 1, "the controllers have started again"

    run(scenario())
    assert "keeper: " in caplog.text
    assert "bad" in caplog.text


def test_a_key_that_can_never_be_queued_costs_no_other_key_of_the_event() -> None:
    class NamesNoKeyFirst(RecordingController):
        def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
            name = obj["metadata"]["name"]
            return (Enqueue(NO_KEY), Enqueue(name), Enqueue(f"{name}-soon", NO_TIME), Enqueue(f"{name}-more"))

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            broken = NamesNoKeyFirst()
            async with running(server, broken):
                await until(lambda: {"m", "m-more"} <= set(broken.worked))

    asyncio.run(scenario())


@on_both_loops
def test_keys_that_are_woken_within_a_millisecond_lose_nothing_of_the_event(run: Run) -> None:
    class Hasty(RecordingController):
        def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
            name = obj["metadata"]["name"]
            return (
                Enqueue("all", 0.0002),
                Enqueue("all", 0.0001),
                Enqueue(name, 0.0001),
                Enqueue(name, 0.00005),
                Enqueue(f"{name}-2"),
            )

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            hasty = Hasty()
            async with running(server, hasty):
                for number in range(20):
                    await ask(server, "POST", MAPS, {"metadata": {"name": f"m{number}"}})
                names = {f"m{number}{end}" for number in range(20) for end in ("", "-2")} | {"all"}
                await until(lambda: names <= set(hasty.worked))

    run(scenario())


def test_a_controller_that_fails_to_handle_an_object_gets_it_again(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(RecordingController):
        def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
            if self.fails():
                raise RuntimeError("a bug")
            return (Enqueue("learnt"),)

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            slow, other = Slow(), RecordingController("other")
            slow.left = 1
            async with running(server, slow, other, sleep=at_once):
                await until(lambda: "m" in other.worked and "m" in slow.worked)
                await until(lambda: "learnt" in slow.worked)
                assert other.worked == ["m"]

    asyncio.run(scenario())
    assert "keeper: the discovery result could not be processed" in caplog.text


def test_a_watch_that_fails_with_an_unknown_error_continues(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        """A transport that fails on the Secrets at first, and not in a way that transports do."""

        def __init__(self, inner: Transport) -> None:
            self.inner = inner
            self.left = 3

        async def request(self, request: HTTPRequest) -> HTTPResponse:
            return await self.inner.request(request)

        async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
            if request.path.endswith("/secrets") and self.left:
                self.left -= 1
                raise RuntimeError("a bug")
            return await self.inner.stream(request, idle_s=idle_s)

        async def close(self) -> None: ...

    class Both(RecordingController):
        def watches(self) -> Iterable[WatchSpec]:
            return (*super().watches(), WatchSpec(SECRETS, frozenset({"type"})))

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            both = Both()
            async with running(Odd(server), both, sleep=at_once):
                await until(lambda: "m" in both.worked)
                await ask(server, "POST", SECRETS.collection_path("default"), {"metadata": {"name": "s"}})
                await until(lambda: "s" in both.worked)
                assert both.worked.count("m") == 1

    asyncio.run(scenario())
    assert "the watch of secrets failed" in caplog.text


def test_an_event_that_cannot_be_written_silences_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class EmittingController(RecordingController):
        def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
            about = {"kind": "ConfigMap", "namespace": "default", "name": key, "uid": key, "apiVersion": "v1"}
            if key == "bad":
                del about["name"]
            yield EmitEvent(about, "Warning", "Loud", "it is loud", "crier")
            return Done()

    async def scenario() -> None:
        async with a_server() as server:
            await with_namespace(server)
            for name in ("bad", "good"):
                await ask(server, "POST", MAPS, {"metadata": {"name": name}})

            async def told() -> bool:
                found = (await ask(server, "GET", "/api/v1/namespaces/default/events"))[1]["items"]
                return [each["involvedObject"]["name"] for each in found] == ["good"]

            async with running(server, EmittingController()):
                await until(told)

    asyncio.run(scenario())
    assert "crier: the Event Loud about" in caplog.text
