"""Webhooks that say no, say nonsense, or say nothing: how each of it reads, and what the failure policy makes of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, config_map
from harness.request_cases import delete, get, patch, post
from harness.server_pair import ServerPair
from harness.webhook_server import Raw, WebhookFunction, make_certificates
from real.webhook_cases import (
    MUTATING,
    VALIDATING,
    HookBench,
    HookCase,
    add,
    allows,
    configured,
    denies,
    hook,
    hook_bench,
    hook_case,
    patches,
    rule,
    said,
    warns,
)

pytestmark = pytest.mark.real

MAPS = rule("configmaps")
TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "out of order", "code": 503}
STRANGER = base64.b64encode(make_certificates("stranger")[0]).decode()

REFUSALS: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "a message": {"message": "not today"},
    "a reason": {"reason": "Forbidden"},
    "code and message": {"code": 403, "reason": "Forbidden", "message": "no way"},
    "a low code": {"code": 200, "message": "odd"},
    "details": {"code": 422, "message": "x", "details": {"name": "n", "kind": "K", "causes": [{"field": "a"}]}},
    "a retry": {"code": 429, "message": "later", "details": {"retryAfterSeconds": 3}},
}


def raw(body: Any, status: int = 200, headers: dict[str, str] = JSON) -> WebhookFunction:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda review: Raw(data, status, headers)


def answered(**response: Any) -> WebhookFunction:
    return lambda review: said(review, **response)


def without(field: str) -> WebhookFunction:
    return lambda review: {name: value for name, value in said(review).items() if name != field}


def b64(value: Any) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


ANSWERS: dict[str, WebhookFunction] = {
    "no JSON": raw(b"garbage"),
    "nothing at all": raw(b""),
    "a list": raw([]),
    "another kind": raw({"apiVersion": "v1", "kind": "Pod"}),
    "an unknown version": raw({"apiVersion": "admission.k8s.io/v7", "kind": "AdmissionReview"}),
    "the older version": lambda review: {**said(review), "apiVersion": "admission.k8s.io/v1beta1"},
    "no kind": without("kind"),
    "no version": without("apiVersion"),
    "neither kind nor version": lambda review: {"response": said(review)["response"]},
    "no response": without("response"),
    "another uid": answered(uid="somebody-else"),
    "a word for a truth": answered(allowed="yes"),
    "a number for a warning": answered(warnings=[1]),
    "a patch that is not base64": answered(patch="%%%", patchType="JSONPatch"),
    "not found": raw(b"no such page\n", 404, TEXT),
    "a broken server": raw(b"  it broke\n", 500, TEXT),
    "a broken server that speaks JSON": raw({"error": "x"}, 500),
    "a Status": raw(STATUS, 503),
    "unavailable": raw(b"later", 503, TEXT),
    "forbidden": raw(b"not for you", 403, TEXT),
    "unauthorized": raw(b"who are you", 401, TEXT),
    "a teapot": raw(b"short and stout", 418, TEXT),
    "too many": raw(b"slow down", 429, TEXT),
    "a good answer with a bad code": lambda review: Raw(json.dumps(said(review)).encode(), 502),
    "a good answer as text": lambda review: Raw(json.dumps(said(review)).encode(), 200, TEXT),
    "created": lambda review: Raw(json.dumps(said(review)).encode(), 201),
    "no answer": lambda review: Raw(cut=True),
    "audit annotations": answered(auditAnnotations={"key": "value"}),
    "a long answer": answered(auditAnnotations={"key": "v" * 1_000_000}),
}
PATCHED: dict[str, WebhookFunction] = {
    "no patch type": answered(patch=b64([add("/data/x", "y")])),
    "no patch": answered(patchType="JSONPatch"),
    "an empty patch type": answered(patch=b64([add("/data/x", "y")]), patchType=""),
    "a strange patch type": answered(patch=b64([add("/data/x", "y")]), patchType="MergePatch"),
    "a patch that is no JSON": answered(patch=b64(b"{["), patchType="JSONPatch"),
    "a patch that is an object": answered(patch=b64({"op": "add"}), patchType="JSONPatch"),
    "a patch of nothing": answered(patch=b64([]), patchType="JSONPatch"),
    "a patch of null": answered(patch=b64(None), patchType="JSONPatch"),
    "no parent": patches(add("/metadata/labels/x", "y")),
    "nothing to remove": patches({"op": "remove", "path": "/data/none"}),
    "no parent to remove from": patches({"op": "remove", "path": "/none/none"}),
    "nothing to replace": patches({"op": "replace", "path": "/none/x", "value": 1}),
    "a test that fails": patches({"op": "test", "path": "/data/k", "value": "other"}),
    "a test of nothing": patches({"op": "test", "path": "/none/x", "value": "other"}),
    "an unknown operation": patches({"op": "mix", "path": "/data/k"}),
    "no operation": patches({"path": "/data/k"}),
    "no path": patches({"op": "add", "value": 1}),
    "no source of a copy": patches({"op": "copy", "from": "/none/x", "path": "/data/k"}),
    "no goal of a move": patches({"op": "move", "from": "/data/k", "path": "/none/x"}),
    "nothing to move": patches({"op": "move", "from": "/data/none", "path": "/data/x"}),
    "an index too far": patches(add("/metadata/managedFields/7", {})),
    "an index that is no number": patches(add("/metadata/managedFields/first", {})),
    "an index to remove": patches({"op": "remove", "path": "/metadata/managedFields/7"}),
    "a value of the wrong type": patches(add("/data/k", 1)),
    "another kind": patches({"op": "replace", "path": "/kind", "value": "Pod"}),
    "no kind": patches({"op": "remove", "path": "/kind"}),
    "the whole document": patches({"op": "replace", "path": "", "value": {"data": {"all": "new"}}}),
}
WARNED = {
    "short ones": ("one", "two", 'three "quoted" \\ ones', "", "one"),
    "one that no header can carry": ("fine", "not\nfine", "not\x00fine", "größe"),
    "long ones": tuple(f"{letter * 900} {letter}" for letter in "abcdef"),
    "very many": tuple(f"warning {number} " + "w" * 240 for number in range(30)),
    "as many as fit": tuple(f"{number:03} " + "w" * 252 for number in range(16)),
    "one more than fit": tuple(f"{number:03} " + "w" * 252 for number in range(17)),
    "more than a hundred": tuple(f"warning {number}" for number in range(150)),
    "more than a thousand": tuple(f"{number:03x}!" for number in range(2000)),
    "runes of several bytes": tuple(f"{number:03}" + "ü" * 300 for number in range(30)),
    "a line feed that is cut off": ("a" * 300 + "\n", "b" * 5000, "c" * 300 + "\x01", "d\x01"),
}


def one(name: str, answer: WebhookFunction, kind: str = VALIDATING, **fields: Any) -> HookCase:
    return hook_case(
        name,
        {"/it": answer},
        configured(kind, hook("/it", MAPS, **fields)),
        post(CONFIG_MAPS, config_map("a")),
    )


CASES = [
    *(one(f"a refusal: {name}", denies(**status)) for name, status in REFUSALS.items()),
    *(one(f"an answer: {name}", answer) for name, answer in ANSWERS.items()),
    *(one(f"a patch: {name}", answer, MUTATING) for name, answer in PATCHED.items()),
    *(one(f"warnings: {name}", warns(*texts)) for name, texts in WARNED.items()),
    one("a validating webhook sends a patch", patches(add("/data/x", "y"))),
    one("a validating webhook names a patch type", answered(patchType="JSONPatch")),
    one(
        "an older webhook names nothing",
        lambda review: {"response": {"allowed": True}},
        admissionReviewVersions=["v1beta1"],
    ),
    one(
        "an older webhook patches without a type",
        answered(uid="", patch=b64([add("/data/x", "y")])),
        MUTATING,
        admissionReviewVersions=["v1beta1"],
    ),
    one("an answer that comes too late", lambda review: Raw(late=True), timeoutSeconds=1),
    one("a late answer is ignored", lambda review: Raw(late=True), timeoutSeconds=1, failurePolicy="Ignore"),
    one("nonsense is ignored", raw(b"garbage"), MUTATING, failurePolicy="Ignore"),
    one("a refusal is never ignored", denies(message="no"), failurePolicy="Ignore"),
    one("a patch that does not fit is not ignored", patches(add("/a/b", 1)), MUTATING, failurePolicy="Ignore"),
    hook_case(
        "nobody is there",
        {},
        configured(VALIDATING, hook("/it", MAPS, clientConfig={"url": "https://127.0.0.1:1/x/", "caBundle": "{ca}"})),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a certificate of a stranger",
        {"/it": allows},
        configured(MUTATING, hook("/it", MAPS, clientConfig={"url": "https://{hook}/{ns}/it", "caBundle": STRANGER})),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "no bundle of certificates",
        {"/it": allows},
        configured(VALIDATING, hook("/it", MAPS, clientConfig={"url": "https://{hook}/{ns}/it"})),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a bundle that is none",
        {"/it": allows},
        configured(
            VALIDATING, hook("/it", MAPS, clientConfig={"url": "https://{hook}/{ns}/it", "caBundle": b64(b"no PEM")})
        ),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a service that does not exist",
        {},
        configured(
            VALIDATING,
            hook("/it", MAPS, clientConfig={"service": {"namespace": "{ns}", "name": "none", "path": "/check/it/"}}),
        ),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "the path is cleaned",
        {"/it": allows},
        configured(VALIDATING, hook("/it", MAPS, clientConfig={"url": "https://{hook}/{ns}//it/", "caBundle": "{ca}"})),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a webhook that is down keeps nobody from removing it",
        {"/it": raw(b"", 500)},
        configured(VALIDATING, hook("/it", MAPS, rule("*/*", group="admissionregistration.k8s.io"))),
        configured(MUTATING, hook("/it", MAPS, rule("*/*", group="admissionregistration.k8s.io"))),
        post(CONFIG_MAPS, config_map("a")),
        patch(f"{VALIDATING}/{{ns}}", {"metadata": {"labels": {"a": "b"}}}),
        delete(f"{VALIDATING}/{{ns}}"),
        delete(f"{MUTATING}/{{ns}}"),
        post(CONFIG_MAPS, config_map("a")).until(201),
    ),
    hook_case(
        "a patch for a delete",
        {"/it": patches(add("/data/x", "y"))},
        post(CONFIG_MAPS, config_map("a")),
        configured(MUTATING, hook("/it", rule("configmaps", operations=("DELETE",)))),
        delete(f"{CONFIG_MAPS}/a"),
        delete(CONFIG_MAPS),
        get(f"{CONFIG_MAPS}/a"),
    ),
    hook_case(
        "the client has less time than the webhook",
        {"/it": lambda review: Raw(late=True)},
        configured(MUTATING, hook("/it", MAPS)),
        post(f"{CONFIG_MAPS}?timeout=1s", config_map("a")),
    ),
]


@pytest.fixture(scope="module")
def bench(servers: ServerPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookBench]:
    with hook_bench(servers, tmp_path_factory.mktemp("hooks")) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_failing_webhooks_as_on_a_real_server(bench: HookBench, case: HookCase) -> None:
    bench.agree(case)
