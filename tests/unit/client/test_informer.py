"""List and watch with a scripted server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qs

from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable

Line = tuple[str, dict[str, Any]]


def thing(name: str, revision: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "uid": uid or f"u-{name}", "resourceVersion": str(revision)}}


def page(revision: int, *items: dict[str, Any], more: str = "") -> HTTPResponse:
    body = {"metadata": {"resourceVersion": str(revision), "continue": more}, "items": items}
    return HTTPResponse(200, {}, json.dumps(body).encode())


def refusal(code: int, **headers: str) -> HTTPResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPResponse(code, named, json.dumps({"kind": "Status", "code": code, "message": "no"}).encode())


def watch(*events: Line) -> list[bytes]:
    return [json.dumps({"type": kind, "object": item}).encode() for kind, item in events]


class Script:
    """Answers requests from a list, and remembers them; the test ends when the list does."""

    def __init__(self, *responses: HTTPResponse | list[bytes] | Unreachable) -> None:
        self.responses = list(responses)
        self.queries: list[dict[str, str]] = []
        self.slept: list[float] = []
        self.events: list[InformerEvent] = []
        self.problems: list[str] = []
        self.over = asyncio.Event()
        self.fields: tuple[str, ...] = ()
        self.may_be_absent = False
        self.absent: list[str] = []
        self.transport = InProcessTransport(self.handle)

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        if not self.responses:
            self.over.set()
            await asyncio.Event().wait()
        self.queries.append({key: values[0] for key, values in parse_qs(request.query).items()})
        response = self.responses.pop(0)
        if isinstance(response, Unreachable):
            raise response
        return response if isinstance(response, HTTPResponse) else self.lines(response)

    async def lines(self, lines: list[bytes]) -> AsyncGenerator[bytes, None]:
        for line in lines:
            yield line[:9]
            yield line[9:] + b"\n"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def play(self) -> Script:
        async def run() -> None:
            informer = Informer(
                self.transport,
                "/api/v1/pods",
                self.events.append,
                jitter=lambda: 0.0,
                sleep=self.sleep,
                query={"fieldSelector": "spec.nodeName!="},
                fields=self.fields,
                may_be_absent=self.may_be_absent,
                absent=self.absent.append,
                report=self.problems.append,
            )
            task = asyncio.create_task(informer.run())
            await self.over.wait()
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(run())
        return self

    def told(self) -> list[str]:
        return [
            f"+{event.object['metadata']['name']}@{event.object['metadata']['resourceVersion']}"
            if isinstance(event, ObjectApplied)
            else f"-{event.name}"
            if isinstance(event, ObjectDeleted)
            else f"synced@{event.revision}"
            for event in self.events
        ]


def test_a_list_in_pages_is_followed_by_a_watch_from_its_revision() -> None:
    script = Script(
        page(7, thing("a", 3), more="next"),
        page(7, thing("b", 4)),
        watch(("MODIFIED", thing("a", 8)), ("DELETED", thing("b", 9))),
    ).play()
    assert script.told() == ["+a@3", "+b@4", "synced@7", "+a@8", "-b"]
    assert script.queries[0] == {"fieldSelector": "spec.nodeName!=", "limit": "500"}
    assert script.queries[1] == {"fieldSelector": "spec.nodeName!=", "limit": "500", "continue": "next"}
    assert script.queries[2] == {
        "fieldSelector": "spec.nodeName!=",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }
    assert script.slept == []


def test_a_watch_that_ends_resumes_from_the_last_bookmark_without_a_list() -> None:
    bookmark = {"metadata": {"resourceVersion": "20"}}
    script = Script(page(7), watch(("ADDED", thing("a", 8)), ("BOOKMARK", bookmark)), watch(("ADDED", thing("b", 21))))
    script.play()
    assert script.queries[2]["resourceVersion"] == "20"
    assert script.told() == ["synced@7", "+a@8", "+b@21"]


def test_expired_history_is_listed_again_and_only_differences_are_delivered() -> None:
    script = Script(
        page(7, thing("kept", 3), thing("changed", 4), thing("gone", 5), thing("remade", 6)),
        watch(("ERROR", {"code": 410, "message": "too old"})),
        page(30, thing("kept", 3), thing("changed", 25), thing("new", 26), thing("remade", 27, uid="other")),
        watch(),
    ).play()
    assert script.told()[5:] == ["+changed@25", "+new@26", "-remade", "+remade@27", "-gone", "synced@30"]
    assert script.queries[3]["resourceVersion"] == "30"
    assert script.problems == []


def test_a_refused_watch_with_410_lists_again_too() -> None:
    script = Script(page(7), refusal(410), page(9), watch()).play()
    assert script.told() == ["synced@7", "synced@9"]


def test_a_list_that_expires_between_pages_is_asked_for_again_in_one_piece() -> None:
    script = Script(page(7, thing("a", 3), more="next"), refusal(410), page(9, thing("a", 3)), watch()).play()
    assert "limit" not in script.queries[2]
    assert script.told() == ["+a@3", "synced@9"]


def test_a_good_list_and_an_event_of_a_watch_reset_the_backoff() -> None:
    lost = Unreachable("cut")
    script = Script(lost, lost, lost, page(7), lost, watch(("ADDED", thing("a", 8))), lost, watch()).play()
    assert script.slept == [0.25, 0.5, 1.0, 0.25, 0.25, 1.0]
    assert script.told() == ["synced@7", "+a@8"]
    assert script.queries[-1]["resourceVersion"] == "8"


def test_a_watch_that_ends_as_intended_resets_the_backoff() -> None:
    refused = refusal(403)
    script = Script(page(7), refused, refused, watch(), refused, watch()).play()
    assert script.slept == [0.25, 0.5, 1.0, 0.25, 1.0]


def test_a_permission_that_stays_missing_is_asked_for_with_the_long_backoff() -> None:
    script = Script(*[refusal(403)] * 26, page(7), watch()).play()
    assert script.slept[:26] == [0.25, 0.5] + [1.0] * 18 + [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_watch_that_is_refused_after_each_good_list_is_asked_for_with_the_long_backoff() -> None:
    script = Script(page(7), *[refusal(403)] * 26, watch()).play()
    assert script.slept[20:26] == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_the_first_list_after_expired_history_follows_at_once_and_later_ones_back_off() -> None:
    expired = watch(("ERROR", {"code": 410, "message": "too old"}))
    heard = watch(("ADDED", thing("a", 30)), ("ERROR", {"code": 410, "message": "too old"}))
    script = Script(page(7), expired, page(8), expired, page(9), refusal(410), page(10), heard, page(31), watch())
    assert script.play().slept == [0.0, 0.8, 1.6, 0.0, 1.0]


def test_lists_after_unreadable_events_back_off_although_each_list_is_good() -> None:
    script = Script(page(7), [b"<html>"], page(7), [b"<html>"], page(7), [b"<html>"], page(7), watch()).play()
    assert script.slept == [0.8, 1.6, 3.2, 1.0]


def test_a_problem_that_repeats_itself_is_reported_ever_more_rarely() -> None:
    lost = Unreachable("cut")
    script = Script(*[lost] * 20, refusal(403), refusal(403), lost, page(7), lost, watch()).play()
    forbidden = "/api/v1/pods returned 403: no"
    assert script.problems == ["cut"] * 5 + [forbidden] * 2 + ["cut"] * 2


def test_a_starting_server_is_asked_again_before_the_time_that_its_503_asks_for() -> None:
    script = Script(refusal(503, retry_after="5"), page(7), watch()).play()
    assert script.slept[0] == 2.0


def test_a_busy_server_is_left_alone_as_long_as_it_asks() -> None:
    script = Script(refusal(429, retry_after="12"), page(7), watch()).play()
    assert script.slept[0] == 12.0
    assert script.problems == ["/api/v1/pods returned 429: no"]


def test_a_server_that_asks_for_a_moment_is_asked_again_without_a_report_and_without_backoff() -> None:
    busy = refusal(429, retry_after="1")
    script = Script(*[busy] * 10, page(7), *[busy] * 10, watch(("ADDED", thing("a", 8))), *[busy] * 10, watch()).play()
    assert script.slept[:30] == [1.0] * 30
    assert script.problems == []


def test_a_server_that_asks_for_a_moment_again_and_again_is_reported() -> None:
    script = Script(*[refusal(429, retry_after="1")] * 12, page(7), watch()).play()
    assert script.slept[:12] == [1.0] * 12
    assert script.problems == ["/api/v1/pods returned 429: no"] * 2


def test_an_event_that_is_no_event_leads_to_a_new_list() -> None:
    script = Script(page(7), [b"<html>"], page(9, thing("a", 8)), watch()).play()
    assert script.told() == ["synced@7", "+a@8", "synced@9"]
    assert "an invalid event" in script.problems[0]


def test_events_that_were_delivered_are_not_delivered_again() -> None:
    old, new = thing("a", 8, uid="one"), thing("a", 12, uid="two")
    script = Script(
        page(7),
        watch(("ADDED", old), ("DELETED", thing("a", 9, uid="one")), ("ADDED", new), ("ADDED", old)),
        watch(("DELETED", thing("a", 9, uid="one")), ("MODIFIED", new)),
    ).play()
    assert script.told() == ["synced@7", "+a@8", "-a", "+a@12"]


def test_a_list_from_the_past_is_not_believed_until_it_comes_three_times() -> None:
    gone = refusal(410)
    past = page(5, thing("a", 3), thing("b", 4))
    script = Script(page(9, thing("a", 8)), gone, past, past, past, watch(("ADDED", thing("c", 6)))).play()
    assert script.told() == ["+a@8", "synced@9", "-a", "+a@3", "+b@4", "synced@5", "+c@6"]
    assert "the list is ignored" in script.problems[0]
    assert "went back from revision 9 to 5" in script.problems[2]


def test_a_retry_after_of_hours_is_limited() -> None:
    script = Script(refusal(429, retry_after="86400"), refusal(503, retry_after="Sun, 06 Nov"), page(7), watch()).play()
    assert script.slept[0] == 120.0
    assert script.slept[1] < 10.0


def test_an_object_of_another_form_than_requested_is_delivered_whole() -> None:
    odd = {**thing("odd", 3), "spec": "a text"}
    script = Script(page(7, odd, thing("even", 4)), watch())
    script.fields = ("spec.nodeName",)
    script.play()
    assert script.told() == ["+odd@3", "+even@4", "synced@7"]


def test_a_silent_watch_is_given_up_after_two_bookmarks_did_not_come() -> None:
    received: list[float] = []

    class Counting(InProcessTransport):
        async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
            received.append(idle_s)
            return await super().stream(request, idle_s=idle_s)

    script = Script(page(7), watch())
    script.transport = Counting(script.handle)
    script.play()
    assert 120 <= received[0] <= 180


def test_a_kind_that_is_removed_during_its_list_is_reported_as_absent() -> None:
    script = Script(refusal(404), refusal(404), page(7, thing("a", 3), more="next"), refusal(404), refusal(404))
    script.may_be_absent = True
    script.play()
    assert script.told() == ["synced@", "+a@3", "-a", "synced@"]
    assert (len(script.absent), script.problems) == (2, [])


def discovery(*names: str) -> HTTPResponse:
    return HTTPResponse(200, {}, json.dumps({"resources": [{"name": name} for name in names]}).encode())


def test_a_forbidden_kind_is_absent_if_discovery_does_not_list_it_and_a_problem_if_it_does() -> None:
    script = Script(refusal(403), refusal(404), refusal(403), discovery("pods/log"), refusal(403), discovery("pods"))
    script.may_be_absent = True
    script.play()
    assert script.told() == ["synced@"]
    assert (len(script.absent), len(script.problems)) == (1, 1)
    assert "returned 403" in script.problems[0]


def test_a_forbidden_kind_whose_discovery_cannot_be_read_counts_as_served() -> None:
    unreadable = (HTTPResponse(200, {}, b"<html>"), refusal(500), Unreachable("cut off"))
    script = Script(*(each for response in unreadable for each in (refusal(403), response)))
    script.may_be_absent = True
    script.play()
    assert (script.told(), script.absent, script.responses) == ([], [], [])
    assert script.problems == ["/api/v1/pods returned 403: no"] * 2, "the third one is not reported again"
