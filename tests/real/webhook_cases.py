"""Cases with webhooks: compares the responses of the servers and the reviews that each of them sent to its webhook.

A case names its webhooks by path; each server has its own webhook server. A real server learns of a configuration late,
so every configuration also has a marker webhook: once the marker refuses, the others are active too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.case_runner import Run
from harness.compare import Difference, Seen, differences
from harness.request_cases import AnyStep, Case, Step, delete, patch, post
from harness.server import Server
from harness.server_pair import ServerPair, namespace_of
from harness.webhook_server import Raw, WebhookFunction, WebhookServer, make_certificates

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KINDS = {MUTATING: "MutatingWebhookConfiguration", VALIDATING: "ValidatingWebhookConfiguration"}
MARKER = "/marker"
STALE = "stale"
NAMESPACES = "/api/v1/namespaces"
JSON_PATCH = "JSONPatch"
# The two servers' own users have different names.
JANE_INFO = {"username": "jane"}
JANE = {
    "Impersonate-User": "jane",
    "Impersonate-Uid": "4711",
    "Impersonate-Group": "system:masters",
    "Impersonate-Extra-Team": "blue",
}


@dataclass(frozen=True)
class HookCase:
    name: str
    hooks: Mapping[str, WebhookFunction]
    steps: tuple[AnyStep, ...]
    parallel: bool


def hook_case(
    name: str, hooks: Mapping[str, WebhookFunction], *steps: AnyStep | tuple[AnyStep, ...], parallel: bool = False
) -> HookCase:
    """``parallel``: several validating webhooks are asked at once, in no order."""
    flat = [each for step in steps for each in (step if isinstance(step, tuple) else (step,))]
    by_jane = [replace(each, headers={**JANE, **each.headers}) if isinstance(each, Step) else each for each in flat]
    return HookCase(name, hooks, tuple(by_jane), parallel)


def rule(*resources: str, operations: tuple[str, ...] = ("*",), group: str = "", **rest: Any) -> dict[str, Any]:
    return {
        "operations": list(operations),
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": list(resources),
        **rest,
    }


def hook(path: str, *rules: Any, **fields: Any) -> dict[str, Any]:
    """A webhook for the namespace of the case."""
    return {
        "name": f"{path.strip('/')}.hooks.example",
        "clientConfig": {"url": f"https://{{hook}}/{{ns}}{path}", "caBundle": "{ca}"},
        "rules": list(rules),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}},
        **fields,
    }


def configured(path: str, *hooks: Any, name: str = "{ns}") -> tuple[Step, Step]:
    """Make a configuration and wait until it counts."""
    marker = hook(MARKER, rule("serviceaccounts"), objectSelector={"matchLabels": {"marker": name}})
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KINDS[path],
        "metadata": {"name": name},
        "webhooks": [*hooks, marker],
    }
    return post(path, body), marked(name).until(400)


def removed(path: str, name: str = "{ns}") -> tuple[Step, Step]:
    return delete(f"{path}/{name}"), marked(name).until(201)


def marked(name: str, namespace: str = "{ns}") -> Step:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "marker", "labels": {"marker": name}}}
    return post(f"{NAMESPACES}/{namespace}/serviceaccounts?dryRun=All", body)


def labelled(labels: dict[str, str], namespace: str = "{ns}") -> tuple[Step, Step]:
    """Label a namespace and wait until that counts: `by_labels` must be among the webhooks."""
    return patch(f"{NAMESPACES}/{namespace}", {"metadata": {"labels": labels}}), marked("labels", namespace).until(400)


def by_labels(labels: dict[str, str]) -> Any:
    """A webhook that tells `labelled` of the labels of a namespace."""
    selectors = {"namespaceSelector": {"matchLabels": labels}, "objectSelector": {"matchLabels": {"marker": "labels"}}}
    return hook(MARKER, rule("serviceaccounts"), name="labels.hooks.example", **selectors)


def said(review: Any, **response: Any) -> dict[str, Any]:
    """The answer of a webhook to a review."""
    return {
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": True, **response},
    }


def allows(review: Any) -> dict[str, Any]:
    return said(review)


def denies(**status: Any) -> WebhookFunction:
    return lambda review: said(review, allowed=False, **({"status": status} if status else {}))


def warns(*texts: str) -> WebhookFunction:
    return lambda review: said(review, warnings=list(texts))


def patches(*operations: Any) -> WebhookFunction:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()

    def answer(review: Any) -> dict[str, Any]:
        return said(review, patch=patch, patchType=JSON_PATCH)

    return answer


def noting(annotation: str, word: str, *, once: bool = False) -> WebhookFunction:
    """Adds a word to an annotation that is there, every time it is asked, or the first time only."""

    def note(review: Any) -> Raw | dict[str, Any]:
        seen = review["request"]["object"]["metadata"]["annotations"][annotation]
        if once and word in seen.split(","):
            return allows(review)
        return patches(add(f"/metadata/annotations/{annotation}", f"{seen},{word}"))(review)

    return note


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


class HookBench:
    """The two servers, each with a webhook server beside it."""

    def __init__(self, servers: ServerPair, hooks: Mapping[str, WebhookServer]) -> None:
        self._both = servers
        self._hooks = hooks
        self._stale: dict[str, list[bool]] = {}

    def agree(self, case: HookCase) -> None:
        namespace = namespace_of(case.name)
        left, right = self._both.on_each(lambda server: self._run(server, namespace, case))
        if left[-1].status > right[-1].status:  # real: a server whose cache was late asks about a stale object first
            left[-1] = self._without_stale(left[-1], right[-1])
        found: list[Difference] = []
        answers: dict[str, tuple[Seen, Seen]] = {}
        for number, (one, other) in enumerate(zip(left, right, strict=True), 1):
            step = case.steps[number - 1] if number <= len(case.steps) else None
            asked = f"{step.method} {step.path} {str(step.body)[:200]}" if isinstance(step, Step) else "reviews"
            answers[f"{number}. {asked}"] = (one, other)
            found += differences(case.name, f"{number}. {asked}", one, other)
        self._both.judge(found, answers)

    def _run(self, server: Server, namespace: str, case: HookCase) -> list[Seen]:
        hooks = self._hooks[server.name]
        prefix = f"/{namespace}"
        hooks.hooks |= {f"{prefix}{path}": hook for path, hook in case.hooks.items()}
        hooks.hooks[prefix + MARKER] = denies()
        ca = base64.b64encode(hooks.ca).decode()
        run = Run(server, namespace, {"hook": hooks.address, "ca": ca})
        seen = run.run(Case(case.name, case.steps))
        own = [each for each in hooks.asked if each[0].startswith(f"{prefix}/") and _is_ours(each[1])]
        asked = [
            {"path": path.removeprefix(prefix), "review": _readable(review), STALE: is_stale}
            for (path, review), is_stale in zip(own, _stale(own), strict=True)
        ]
        hooks.asked = [each for each in hooks.asked if not each[0].startswith(f"{prefix}/")]
        reviews: list[Any] = []
        for each in map(run.normal, asked):
            if each not in reviews:  # a real server may have begun with an object that it no longer had
                reviews.append(each)
        if case.parallel:
            reviews.sort(key=lambda each: json.dumps(each, sort_keys=True))
        self._stale[server.name] = [each.pop(STALE) for each in reviews]
        return [*seen, Seen(len(reviews), {}, reviews)]

    def _without_stale(self, seen: Seen, ours: Seen) -> Seen:
        """A review that looks stale follows an update without an effect if the embedded server sends it, too."""
        stale = self._stale[self._both.real.name]
        reviews = [each for each, is_stale in zip(seen.body, stale, strict=True) if not is_stale or each in ours.body]
        return Seen(len(reviews), {}, reviews)


def _stale(asked: Iterable[tuple[str, Any]]) -> Iterator[bool]:
    """Whether a review changes a version of an object that an earlier review changed already: kube-apiserver applies a
    patch to the version in its cache first, and asks again when that was not the newest."""
    changed: dict[tuple[str, Any], Any] = {}
    for path, review in asked:
        request = (review and review.get("request")) or {}
        old = request.get("oldObject") or {}
        version = (path, (old.get("metadata") or {}).get("resourceVersion"))
        is_update = request.get("operation") == "UPDATE" and version[1] is not None
        yield is_update and changed.get(version, request.get("object")) != request.get("object")
        if is_update:
            changed.setdefault(version, request.get("object"))


def _is_ours(review: Any) -> bool:
    """Not about the marker, and not of the cleaning up after the case."""
    request = (review and review.get("request")) or {}
    return request.get("name") != "marker" and request.get("userInfo", JANE_INFO)["username"] == "jane"


def _readable(review: Any) -> Any:
    """Without the review's uid, which is new every time."""
    request = review and review.get("request")
    return {**review, "request": {**request, "uid": "<review>"}} if request else review


@contextmanager
def hook_bench(servers: ServerPair, folder: Path) -> Iterator[HookBench]:
    certificates = make_certificates("hook-authority")
    with (
        WebhookServer(_made(folder / "real"), certificates) as one,
        WebhookServer(_made(folder / "ours"), certificates) as two,
    ):
        yield HookBench(servers, {servers.real.name: one, servers.ours.name: two})


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
