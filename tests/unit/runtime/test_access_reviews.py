"""Which users may read the metrics: reviews of the API server, how long they are cached, and the server over TLS."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.http.certificates import CertificateKeyPair, make_authority, make_server_certificate
from headgate.http.server import HTTPServer
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.runtime.health.access_reviews import AccessReviews
from headgate.runtime.health.handler import HealthHandler, HealthPage
from headgate.runtime.health.secured_server import CertificateFiles, own_certificate, renewed, serve_secured_health
from unit.runtime.serving import a_server, ask

USER = {"username": "prometheus", "uid": "7", "groups": ["monitoring"], "extra": {"scopes": ["metrics"]}}


class Reviewing:
    """Answers reviews: the token ``good`` is Prometheus, ``other`` a user without permission."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.status = 201
        self.is_up = True

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if not self.is_up:
            raise Unreachable("connection refused")
        body = msgspec.json.decode(request.body)
        self.requests.append({"path": request.path, **body})
        return HTTPResponse(self.status, {}, msgspec.json.encode({"status": self._status(body)}))

    def _status(self, review: dict[str, Any]) -> dict[str, Any]:
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            users = {"good": USER, "other": {"username": "other"}}
            user = users.get(spec["token"])
            return {"authenticated": True, "user": user} if user else {"error": "unknown token"}
        return {"allowed": spec["user"] == "prometheus"}

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> HTTPResponse:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    @property
    def kinds(self) -> list[str]:
        return [each["kind"] for each in self.requests]


class Checking:
    """Reviews on a clock of their own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.server = Reviewing()
        self._reviews = AccessReviews(self.server, lambda: self.now_s)

    def status(self, authorization: str, source: str = "10.0.0.1", method: str = "GET") -> int:
        return asyncio.run(self._reviews.check(authorization, method, "/metrics", source)).status


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic Z29vZA==", "good"])
def test_without_a_bearer_token_nothing_is_asked(authorization: str) -> None:
    checking = Checking()
    assert checking.status(authorization) == 401
    assert checking.server.requests == []


def test_an_allowed_user_is_reviewed_with_all_that_is_known_of_it() -> None:
    checking = Checking()
    assert checking.status("Bearer good") == 200
    token, access = checking.server.requests
    assert (token["path"], token["spec"]) == ("/apis/authentication.k8s.io/v1/tokenreviews", {"token": "good"})
    assert access["path"] == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert access["spec"] == {
        "user": "prometheus",
        "uid": "7",
        "groups": ["monitoring"],
        "extra": {"scopes": ["metrics"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


def test_an_unknown_token_is_401_and_a_user_without_permission_403() -> None:
    checking = Checking()
    assert checking.status("Bearer bad") == 401
    assert checking.status("bearer other") == 403


def test_answers_count_for_a_while() -> None:
    checking = Checking()
    checking.status("Bearer good")
    checking.now_s = 59.0
    checking.status("Bearer good")
    assert checking.server.kinds == ["TokenReview", "SubjectAccessReview"]
    checking.now_s = 61.0
    checking.status("Bearer good")
    assert checking.server.kinds[2:] == ["TokenReview"], "the permission counts for five minutes"
    checking.now_s = 301.0
    checking.status("Bearer good")
    assert checking.server.kinds[3:] == ["TokenReview", "SubjectAccessReview"]


def test_refusals_count_for_a_shorter_while() -> None:
    checking = Checking()
    assert [checking.status("Bearer bad"), checking.status("Bearer other")] == [401, 403]
    checking.now_s = 4.0
    assert [checking.status("Bearer bad"), checking.status("Bearer other")] == [401, 403]
    assert checking.server.kinds == ["TokenReview", "TokenReview", "SubjectAccessReview"]
    checking.now_s = 6.0
    checking.status("Bearer bad")
    checking.now_s = 31.0
    checking.status("Bearer other")
    assert checking.server.kinds[3:] == ["TokenReview", "SubjectAccessReview"]


def test_unknown_tokens_are_limited_for_each_address_and_known_ones_are_not() -> None:
    checking = Checking()
    assert checking.status("Bearer good") == 200
    statuses = [checking.status(f"Bearer bad-{number}") for number in range(20)]
    assert statuses == [401] * 9 + [429] * 11
    assert checking.status("Bearer good") == 200
    assert checking.status("Bearer bad", source="10.0.0.2") == 401
    checking.now_s = 1.0
    assert [checking.status(f"Bearer late-{number}") for number in range(3)] == [401, 401, 429]


def test_a_server_that_cannot_answer_is_500_and_is_asked_again() -> None:
    checking = Checking()
    checking.server.is_up = False
    assert checking.status("Bearer good") == 500
    checking.server.is_up, checking.server.status = True, 403
    assert checking.status("Bearer good") == 500
    checking.server.status = 201
    assert checking.status("Bearer good") == 200


def test_the_method_is_the_verb() -> None:
    checking = Checking()
    checking.status("Bearer good", method="HEAD")
    assert checking.server.requests[1]["spec"]["nonResourceAttributes"]["verb"] == "head"


def a_handler() -> HealthHandler:
    checks = {path: {"ping": lambda: ""} for path in ("/livez", "/healthz", "/readyz")}
    return HealthHandler(checks, {"/metrics": HealthPage("text/plain", lambda: b"up 1\n")})


async def asked(port: int, path: str, tls: ssl.SSLContext, token: str = "") -> tuple[int, bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), head, body


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_metrics_need_a_token_and_health_checks_do_not() -> None:
    async def scenario() -> None:
        reviews = AccessReviews(Reviewing())
        async with serve_secured_health(a_handler(), reviews, None, "127.0.0.1", 0) as port:
            tls = unverified()
            for path in ("/livez", "/healthz", "/readyz"):
                assert (await asked(port, path, tls))[0] == 200
            status, head, _ = await asked(port, "/metrics", tls)
            assert (status, b"WWW-Authenticate: Bearer" in head) == (401, True)
            assert (await asked(port, "/metrics", tls, "bad"))[0] == 401
            status, _, body = await asked(port, "/metrics", tls, "other")
            assert (status, body) == (403, b'Forbidden: user "other" may not get path "/metrics"\n')
            status, _, body = await asked(port, "/metrics", tls, "good")
            assert (status, body) == (200, b"up 1\n")
            assert (await asked(port, "/elsewhere", tls))[0] == 401, "a page that is not there is no way around"

    asyncio.run(scenario())


def test_the_embedded_api_server_reviews() -> None:
    async def scenario() -> None:
        async with a_server() as transport:
            reviews = AccessReviews(transport)
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
            accounts = "/api/v1/namespaces/monitoring/serviceaccounts"
            await ask(transport, "POST", accounts, {"metadata": {"name": "prometheus"}})
            status, made = await ask(transport, "POST", f"{accounts}/prometheus/token", {"spec": {}})
            assert status == 201, made
            authorization = f"Bearer {made['status']['token']}"
            refused = await reviews.check(authorization, "GET", "/metrics", "")
            assert (refused.status, "system:serviceaccount:monitoring:prometheus" in refused.text) == (403, True)
            roles = "/apis/rbac.authorization.k8s.io/v1"
            rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
            await ask(transport, "POST", f"{roles}/clusterroles", {"metadata": {"name": "metrics"}, "rules": [rule]})
            binding = {
                "metadata": {"name": "metrics"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "monitoring", "name": "prometheus"}],
            }
            assert (await ask(transport, "POST", f"{roles}/clusterrolebindings", binding))[0] == 201
            allowed = await AccessReviews(transport).check(authorization, "GET", "/metrics", "")
            assert allowed.status == 200, allowed
            assert (await reviews.check("Bearer nonsense", "GET", "/metrics", "")).status == 401

    asyncio.run(scenario())


def a_pair(authority: CertificateKeyPair) -> CertificateKeyPair:
    return make_server_certificate(authority, "metrics", ["127.0.0.1"], datetime.datetime.now(datetime.UTC))


def test_a_certificate_from_files_is_replaced_without_a_restart(tmp_path: Path) -> None:
    authority = make_authority("test", datetime.datetime.now(datetime.UTC))
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")

    def write(pair: CertificateKeyPair) -> None:
        files.certificate.write_bytes(pair.certificate)
        files.key.write_bytes(pair.key)

    first, second = a_pair(authority), a_pair(authority)
    write(first)
    used: list[ssl.SSLContext] = []

    class Server(HTTPServer):
        def __init__(self) -> None:
            pass

        def use_tls(self, tls: ssl.SSLContext) -> None:
            used.append(tls)

    assert renewed(Server(), files, "", first) == first
    assert used == []
    files.certificate.write_bytes(second.certificate)
    assert renewed(Server(), files, "", first) == first, "the key is still the former one"
    assert used == []
    write(second)
    assert renewed(Server(), files, "", first) == second
    assert len(used) == 1
    files.key.unlink()
    assert renewed(Server(), files, "", second) == second

    async def scenario() -> None:
        write(second)
        reviews = AccessReviews(Reviewing())
        async with serve_secured_health(a_handler(), reviews, files, "127.0.0.1", 0) as port:
            verifying = ssl.create_default_context(cadata=authority.certificate.decode())
            assert (await asked(port, "/livez", verifying))[0] == 200

    asyncio.run(scenario())


def test_an_own_certificate_is_kept_until_it_is_about_to_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    made = own_certificate("10.1.2.3")
    server = HTTPServer.__new__(HTTPServer)
    assert renewed(server, None, "", made) == made
    monkeypatch.setattr("headgate.runtime.health.secured_server._RENEW_BEFORE_DAYS", 400)
    assert renewed(server, None, "", made) != made
