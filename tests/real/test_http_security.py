"""Security: user x action x path. Every response equals that of the real server.

Users: anonymous, invalid credentials of several forms, a user without rights, a service account with one right.
Actions: reading and writing, impersonating, granting. Paths: ordinary ones, and paths and request heads that try to
bypass a check.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from harness.certificate_authority import Authority, trusted
from harness.compare import Difference, Seen, differences, seen
from harness.normalise import Normaliser
from harness.server import Answer, Server
from harness.server_pair import ServerPair
from harness.users import ALICE, BOB, TOKEN, bearing
from headgate.apiserver.authn.jwt import SigningKey, unverified

pytestmark = pytest.mark.real

NAMESPACE = "security-table"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
Headers = Mapping[str, str]


def ask(
    server: Server, method: str, path: str, headers: Headers, body: Any = None, certificate: Path | None = None
) -> Answer:
    """One request on a connection of its own, with no other credential than what is given."""
    connection = server.connect(certificate=certificate)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if data is not None:
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        received = tuple((name.lower(), value) for name, value in response.getheaders())
        return Answer(response.status, received, response.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def servers(servers: ServerPair) -> ServerPair:
    """A namespace with a service account that may read config maps, and one that may do nothing."""

    def prepare(server: Server) -> None:
        admin = {"Authorization": f"Bearer {server.token}"}
        made = [
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
            (f"{CORE}/serviceaccounts", {"metadata": {"name": "reader"}}),
            (f"{CORE}/serviceaccounts", {"metadata": {"name": "gone"}}),
            (f"{CORE}/configmaps", {"metadata": {"name": "m"}, "data": {"k": "v"}}),
            (
                f"{RBAC}/roles",
                {
                    "metadata": {"name": "r"},
                    "rules": [
                        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
                        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
                    ],
                },
            ),
            (
                f"{RBAC}/rolebindings",
                {
                    "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
                },
            ),
        ]
        for path, body in made:
            answer = ask(server, "POST", path, admin, body)
            assert answer.status in (201, 409), answer
        ends_s = time.monotonic() + 10
        while ask(server, "GET", f"{CORE}/configmaps", bearing(token_of(server, "reader"))).status != 200:
            assert time.monotonic() < ends_s, "the role is not noticed"

    servers.on_each(prepare)
    return servers


def token_of(server: Server, account: str, **spec: Any) -> str:
    admin = {"Authorization": f"Bearer {server.token}"}
    answer = ask(server, "POST", f"{CORE}/serviceaccounts/{account}/token", admin, {"spec": spec})
    assert answer.status == 201, answer
    return str(answer.json()["status"]["token"])


def key_of(server: Server) -> SigningKey:
    key = load_pem_private_key(server.account_key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return SigningKey(key)


def changed(server: Server, **claims: Any) -> str:
    """The reader's token with other claims, signed by the server's own key."""
    read = unverified(token_of(server, "reader"))
    assert read is not None
    return key_of(server).sign({**read[1], **claims})


def unsigned(server: Server, header: dict[str, Any]) -> str:
    _, claims, signature = token_of(server, "reader").split(".")
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{head}.{claims}.{signature}"


def of_a_deleted_account(server: Server) -> str:
    token = token_of(server, "gone")
    ask(server, "DELETE", f"{CORE}/serviceaccounts/gone", {"Authorization": f"Bearer {server.token}"})
    return token


NOW_S = int(time.time())
BEARERS: dict[str, Callable[[Server], Headers]] = {
    "nobody": lambda server: {},
    "a wrong token": lambda server: bearing("wrong"),
    "an empty token": lambda server: {"Authorization": "Bearer "},
    "two blanks before the token": lambda server: {"Authorization": f"Bearer  {TOKEN}"},
    "a token with a tail": lambda server: bearing(f"{TOKEN}x"),
    "a token in upper case": lambda server: bearing(TOKEN.upper()),
    "basic authorization": lambda server: {"Authorization": "Basic YWRtaW46YWRtaW4="},
    "a scheme alone": lambda server: {"Authorization": "Bearer"},
    "no scheme": lambda server: {"Authorization": TOKEN},
    "nonsense": lambda server: {"Authorization": "\x01\xff"},
    "a proxy's headers": lambda server: {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
    "a user without rights": lambda server: bearing(ALICE),
    "somebody who impersonates without right": lambda server: {**bearing(ALICE), "Impersonate-User": "admin"},
    "somebody who impersonates a group": lambda server: {
        **bearing(BOB),
        "Impersonate-User": "bob",
        "Impersonate-Group": "system:masters",
    },
    "nobody who impersonates": lambda server: {"Impersonate-User": "admin"},
    "a service account with one right": lambda server: bearing(token_of(server, "reader")),
    "an expired token": lambda server: bearing(changed(server, exp=NOW_S - 3600, nbf=NOW_S - 7200, iat=NOW_S - 7200)),
    "a token that is not good yet": lambda server: bearing(changed(server, nbf=NOW_S + 3600)),
    "a token of the future": lambda server: bearing(changed(server, iat=NOW_S + 3600)),
    "a token without an end": lambda server: bearing(changed(server, exp=NOW_S + 3 * 365 * 86400)),
    "a token for another audience": lambda server: bearing(token_of(server, "reader", audiences=["elsewhere"])),
    "a token of another issuer": lambda server: bearing(changed(server, iss="https://elsewhere.example")),
    "a token of another key": lambda server: bearing(
        SigningKey(ec.derive_private_key(1, ec.SECP256R1())).sign({"iss": "https://kubernetes.default.svc"})
    ),
    "a token without an algorithm": lambda server: bearing(unsigned(server, {"alg": "none"})),
    "a token with a simple algorithm": lambda server: bearing(
        unsigned(server, {"alg": "HS256", "kid": key_of(server).key_id})
    ),
    "a token of a deleted account": lambda server: bearing(of_a_deleted_account(server)),
}
WHAT: list[tuple[str, str, Any]] = [
    ("GET", "/healthz", None),
    ("GET", "/version", None),
    ("GET", "/api", None),
    ("GET", "/apis/apps/v1", None),
    ("GET", "/odd", None),
    ("GET", f"{CORE}/configmaps/m", None),
    ("GET", f"{CORE}/configmaps", None),
    ("GET", f"{CORE}/secrets", None),
    ("GET", "/api/v1/configmaps?labelSelector=odd=odd", None),
    ("POST", f"{CORE}/configmaps", {"metadata": {"name": "new"}}),
    ("DELETE", f"{CORE}/configmaps/none", None),
    (
        "POST",
        f"{RBAC}/roles",
        {"metadata": {"name": "more"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
    ),
    ("POST", f"{CORE}/serviceaccounts/reader/token", {}),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
]


def compare(servers: ServerPair, name: str, look: Callable[[Server], list[tuple[str, Answer]]]) -> None:
    left, right = servers.on_each(look)
    found: list[Difference] = []
    answers: dict[str, tuple[Seen, Seen]] = {}
    for (title, one), (_, other) in zip(left, right, strict=True):
        pair = (normal(servers.real, one), normal(servers.ours, other))
        answers[title] = pair
        found += differences(name, title, *pair)
    servers.judge(found, answers)


def normal(server: Server, answer: Answer) -> Seen:
    return seen(answer, Normaliser(server.address))


@pytest.mark.parametrize("who", BEARERS)
def test_each_user_may_do_the_same_on_both_servers(servers: ServerPair, who: str) -> None:
    def look(server: Server) -> list[tuple[str, Answer]]:
        headers = BEARERS[who](server)
        return [(f"{method} {path}", ask(server, method, path, headers, body)) for method, path, body in WHAT]

    compare(servers, who, look)


CERTIFICATES: dict[str, Callable[[Path], Path]] = {
    "a certificate": lambda path: trusted().issue(path, "alice"),
    "a certificate with groups": lambda path: trusted().issue(path, "carol", "readers", "system:masters"),
    "a certificate without a name": lambda path: trusted().issue(path, "", "system:masters"),
    "an expired certificate": lambda path: trusted().issue(path, "carol", "system:masters", hours=-1),
}


@pytest.mark.parametrize("who", CERTIFICATES)
@pytest.mark.parametrize("token", ["", "wrong", ALICE])
def test_each_certificate_may_do_the_same_on_both_servers(
    servers: ServerPair, tmp_path: Path, who: str, token: str
) -> None:
    certificate = CERTIFICATES[who](tmp_path / "client.pem")
    headers = bearing(token) if token else {}

    def look(server: Server) -> list[tuple[str, Answer]]:
        return [
            (f"{method} {path}", ask(server, method, path, headers, body, certificate))
            for method, path, body in WHAT
            if not (method == "POST" and path.endswith(("/configmaps", "/roles")))
        ]

    compare(servers, f"{who} and the token {token!r}", look)


def test_a_certificate_of_another_authority_opens_nothing(servers: ServerPair, tmp_path: Path) -> None:
    """A real server answers 401; here the connection is not made in the first place."""
    certificate = Authority("elsewhere").issue(tmp_path / "client.pem", "admin", "system:masters")

    def tried(server: Server) -> bool:
        try:
            return ask(server, "GET", f"{CORE}/configmaps", {}, None, certificate).status == 401
        except (OSError, http.client.HTTPException):
            return True

    assert servers.on_each(tried) == (True, True)


MAP = f"{CORE}/configmaps/m"
TRICKS = [
    f"/{MAP}",
    MAP.replace("/configmaps", "//configmaps"),
    MAP.replace("/v1/", "/v1//"),
    f"/.{MAP}",
    MAP.replace("/configmaps", "/./configmaps"),
    MAP.replace("/configmaps", "/%2e/configmaps"),
    f"/healthz/..{MAP}",
    f"/healthz/%2e%2e{MAP}",
    f"/version/../{MAP}",
    f"/healthz%2f..{MAP}",
    "/healthz%2f..%2fmetrics",
    f"{CORE}/configmaps/x/../m",
    f"{CORE}/configmaps/x%2f..%2fm",
    f"{CORE}/configmaps/..%2fsecrets",
    f"{CORE}/configmaps/../secrets",
    f"{CORE}/configmaps%2fm",
    f"{CORE}%2fconfigmaps/m",
    f"/api%2fv1/namespaces/{NAMESPACE}/configmaps/m",
    MAP.replace("configmaps", "c%6fnfigmaps"),
    f"{MAP}/",
    f"{MAP}//",
    f"{CORE}/configmaps/",
    MAP.replace("/api/", "/API/"),
    MAP.replace("configmaps", "ConfigMaps"),
    MAP.replace("v1", "V1"),
    f"{MAP};x=y",
    f"{MAP}%00",
    f"{MAP}%0a",
    f"{MAP}%20",
    f"{MAP}%",
    f"{MAP}%zz",
    f"{MAP}?",
    f"{MAP}??watch=true",
    f"{MAP}#x",
    f"{CORE}/configmaps?watch=0&watch=true&timeoutSeconds=1",
    f"{CORE}/configmaps?fieldSelector=metadata.name%3Dm",
    f"{CORE}/configmaps?fieldSelector=metadata.name%3D..%2Fx",
    f"/api/v1/watch/namespaces/{NAMESPACE}/secrets/m?timeoutSeconds=1",
    f"/api/v1/proxy/namespaces/{NAMESPACE}/configmaps/m",
    "/healthz/",
    "/HEALTHZ",
    "/healthz%20",
    "/version//",
    "//healthz",
    "/healthz/../metrics",
]


@pytest.mark.parametrize("who", ["nobody", "alice", "reader", "admin"])
def test_no_path_gets_around_a_check(servers: ServerPair, who: str) -> None:
    def look(server: Server) -> list[tuple[str, Answer]]:
        tokens = {"alice": lambda: ALICE, "admin": lambda: server.token, "reader": lambda: token_of(server, "reader")}
        headers = bearing(tokens[who]()) if who in tokens else {}
        return [(path, ask(server, "GET", path, headers)) for path in TRICKS]

    compare(servers, f"{who} asks around", look)


def head(*lines: str, end: str = "\r\n", body: str = "") -> bytes:
    first = (f"POST {CORE}/configmaps HTTP/1.1", "Host: x", "Connection: close", "Content-Type: application/json")
    return (end.join((*first, *lines)) + end * 2 + body).encode("latin-1")


SMALL = '{"metadata":{"name":"smuggled"}}'
HEADS = {
    "two lengths": head(f"Authorization: Bearer {ALICE}", "Content-Length: 5", "Content-Length: 32", body=SMALL),
    "the same length twice": head(
        f"Authorization: Bearer {ALICE}", "Content-Length: 32", "Content-Length: 32", body=SMALL
    ),
    "lengths in one line": head(f"Authorization: Bearer {ALICE}", "Content-Length: 32, 32", body=SMALL),
    "a length with a sign": head(f"Authorization: Bearer {ALICE}", "Content-Length: +32", body=SMALL),
    "a negative length": head(f"Authorization: Bearer {ALICE}", "Content-Length: -1", body=SMALL),
    "a length in hex": head(f"Authorization: Bearer {ALICE}", "Content-Length: 0x20", body=SMALL),
    "a length and chunks": head(
        f"Authorization: Bearer {ALICE}", "Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"
    ),
    "chunks twice": head(
        f"Authorization: Bearer {ALICE}", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", body="0\r\n\r\n"
    ),
    "another coding": head(f"Authorization: Bearer {ALICE}", "Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"),
    "a blank before the colon": head(f"Authorization : Bearer {ALICE}", "Content-Length: 32", body=SMALL),
    "a folded header": head("Authorization: Bearer", f" {ALICE}", "Content-Length: 32", body=SMALL),
    "bare line feeds": head(f"Authorization: Bearer {ALICE}", "Content-Length: 32", end="\n", body=SMALL),
    "a carriage return in a value": head(f"Authorization: Bearer {ALICE}\rX: y", "Content-Length: 32", body=SMALL),
    "a zero in a value": head(f"Authorization: Bearer {ALICE}\0", "Content-Length: 32", body=SMALL),
    "two authorizations": head(
        "Authorization: Bearer wrong", f"Authorization: Bearer {ALICE}", "Content-Length: 32", body=SMALL
    ),
    "two hosts": head(f"Authorization: Bearer {ALICE}", "Host: y", "Content-Length: 32", body=SMALL),
    "no colon": head(f"Authorization: Bearer {ALICE}", "Odd", "Content-Length: 32", body=SMALL),
    "an empty name": head(f"Authorization: Bearer {ALICE}", ": odd", "Content-Length: 32", body=SMALL),
}


@pytest.mark.parametrize("how", HEADS)
def test_no_head_smuggles_a_request(servers: ServerPair, how: str) -> None:
    """The same bytes are one request on both servers, or none: status line and body are compared."""

    def look(server: Server) -> tuple[bytes, Any]:
        heard = server.say(HEADS[how])
        first, _, rest = heard.partition(b"\r\n")
        body = rest.partition(b"\r\n\r\n")[2]
        return first, body.strip()

    real, ours = servers.on_each(look)
    assert ours == real
    there = ask(servers.ours, "GET", f"{CORE}/configmaps/smuggled", {"Authorization": f"Bearer {servers.ours.token}"})
    assert there.status == 404
