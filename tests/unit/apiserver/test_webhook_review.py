"""Responses of webhooks, and the warnings that clients get from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.apiserver.admission.webhook_review import ReviewResult, decode_review, review_result
from headgate.apiserver.request.messages import WebhookAnswer
from headgate.apiserver.request.warning_headers import warning_headers
from headgate.apiserver.webhooks.call_errors import failure
from headgate.apiserver.webhooks.configuration import compile_webhooks


def review(**response: Any) -> bytes:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    return json.dumps(body).encode()


def judged(body: bytes, *, mutating: bool = True) -> ReviewResult | str:
    decoded = decode_review("v1", body)
    return decoded if isinstance(decoded, str) else review_result(decoded, "v1", "u", "it", mutating=mutating)


def test_a_yes_is_a_verdict_without_a_refusal() -> None:
    assert judged(review(allowed=True, warnings=["w"])) == ReviewResult(warnings=("w",))


def test_a_no_keeps_what_the_webhook_said_of_it() -> None:
    details = {"name": "n", "causes": [{"reason": "R", "message": "m", "field": "f"}], "retryAfterSeconds": 3}
    verdict = judged(review(status={"code": 429, "reason": "TooMany", "message": "later", "details": details}))
    assert isinstance(verdict, ReviewResult)
    assert verdict.refusal is not None
    body = verdict.refusal.body()
    assert body["message"] == 'admission webhook "it" denied the request: later'
    assert (body["code"], body["reason"], body["details"]) == (429, "TooMany", details)


@pytest.mark.parametrize(("said", "code"), [(0, 400), (200, 400), (399, 400), (418, 418), (599, 599), (70000, 500)])
def test_a_no_has_the_code_of_a_refusal(said: int, code: int) -> None:
    verdict = judged(review(status={"code": said}))
    assert isinstance(verdict, ReviewResult)
    assert verdict.refusal is not None
    assert verdict.refusal.code == code


@pytest.mark.parametrize("body", [b"\xff", b'"text"', b"null", b'{"response":[]}', b'{"response":{"patch":"?"}}'])
def test_nonsense_is_a_text_and_never_an_exception(body: bytes) -> None:
    assert isinstance(judged(body), str)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (WebhookAnswer(problem="no"), "no"),
        (WebhookAnswer(200, b"{}"), ""),
        (WebhookAnswer(204), "0-length response with status code: 204 and content type: application/json"),
        (WebhookAnswer(404, b"x"), "the server could not find the requested resource"),
        (WebhookAnswer(403, b" x ", "text/plain"), "x"),
        (
            WebhookAnswer(500, b"x", "text/plain"),
            'an error on the server ("x") has prevented the request from succeeding',
        ),
        (WebhookAnswer(500, b'{"status":"Failure","message":"told"}', "application/json"), "told"),
        (WebhookAnswer(418, b"x"), "the server responded with the status code 418 but did not return more information"),
    ],
)
def test_a_failure_reads_as_of_a_kubernetes_client(answer: WebhookAnswer, text: str) -> None:
    assert failure(answer) == text


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("https://h", "https://h/"),
        ("https://h:8443/a/b", "https://h:8443/a/b"),
        ("https://h//a/./b/../c/", "https://h/a/c"),
    ],
)
def test_a_url_is_cleaned(given: str, called: str) -> None:
    (hook,) = compile_webhooks({"metadata": {"name": "c"}, "webhooks": [{"clientConfig": {"url": given}}]})
    assert hook.url == called


def test_warnings_are_cut_when_they_are_too_much_for_a_header() -> None:
    assert warning_headers(['a "b" \\', "", "new\nline", "ü"]) == (
        ("Warning", '299 - "a \\"b\\" \\\\"'),
        ("Warning", '299 - "ü"'),
    )
    long = warning_headers(["a" * 3000, "b" * 2000])
    assert [len(text) for _, text in long] == [256 + len('299 - ""')] * 2
    longer = warning_headers(["a" * 5000, "b" * 300, "c" * 300])
    assert [len(text) for _, text in longer] == [256 + len('299 - ""')] * 3
    many = [f"{number:03} " + "w" * 252 for number in range(100)]
    assert len(warning_headers(many[:16])) == 16
    assert len(warning_headers(many)) == 17, "the text that is one too many is sent with those before it"
    assert len(warning_headers([f"{number:03x}!" for number in range(2000)])) == 1025
    assert warning_headers(["a" * 5000 + "\n"]) == ()
    assert len(warning_headers(["a" * 300 + "\n", "b" * 5000])) == 2, "cut, it has no line feed any more"
