"""Service account tokens: signature, validity, audiences, and bound objects."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.apiserver.authn.authenticator import TokenAuthenticator
from headgate.apiserver.authn.jwt import SigningKey, unverified
from headgate.apiserver.authn.service_account_tokens import BoundObject, ServiceAccountTokens, TokenOwner
from headgate.apiserver.authn.user import UserInfo
from headgate.store import Item, Store

KEY = SigningKey(ec.derive_private_key(4711, ec.SECP256R1()))
OTHER_KEY = SigningKey(ec.derive_private_key(4712, ec.SECP256R1()))
ISSUER = "https://issuer.example"
NOW_S = 1_700_000_000
HOUR_S = 3600


def put(store: Store, resource: str, namespace: str, name: str, uid: str = "u1", **metadata: Any) -> Item:
    revision = store.next_revision()
    data = msgspec.json.encode({"metadata": {"name": name, **metadata}})
    item = Item(resource, namespace, name, uid, revision, {}, {}, data)
    store.stage(item)
    store.commit(revision)
    return item


def remove(store: Store, resource: str, namespace: str, name: str) -> None:
    found = store.read(resource, namespace, name)
    assert found is not None
    revision = store.next_revision()
    store.stage(msgspec.structs.replace(found, revision=revision), delete=True)
    store.commit(revision)


class Place:
    def __init__(self, key: SigningKey = KEY) -> None:
        self.store = Store()
        self.accounts = ServiceAccountTokens(ISSUER, key, self.store)
        self.robot = put(self.store, "serviceaccounts", "n", "robot")

    def token(self, *bound: BoundObject, audiences: tuple[str, ...] = (ISSUER,)) -> str:
        return self.accounts.issue(
            self.robot,
            bound,
            token_id="id",
            now_s=NOW_S,
            lifetime_s=HOUR_S,
            warn_after_s=None,
            audiences=audiences,
        )


def test_the_same_moment_gives_the_same_token() -> None:
    assert Place().token() == Place().token()


def test_a_good_token_names_its_account() -> None:
    place = Place()
    found = place.accounts.find(place.token(BoundObject("pod", "p", "u2"), BoundObject("node", "x")), NOW_S)
    assert found == "service account token has been invalidated"
    put(place.store, "pods", "n", "p", "u2")
    found = place.accounts.find(place.token(BoundObject("pod", "p", "u2"), BoundObject("node", "x")), NOW_S)
    prefix = "authentication.kubernetes.io/"
    assert found == TokenOwner(
        UserInfo(
            "system:serviceaccount:n:robot",
            ("system:serviceaccounts", "system:serviceaccounts:n"),
            "u1",
            {
                f"{prefix}credential-id": ("JTI=id",),
                f"{prefix}node-name": ("x",),
                f"{prefix}pod-name": ("p",),
                f"{prefix}pod-uid": ("u2",),
            },
        ),
        (ISSUER,),
    )


@pytest.mark.parametrize(
    ("now_s", "problem"),
    [
        (NOW_S - 61, "service account token is not valid yet"),
        (NOW_S - 60, None),
        (NOW_S + HOUR_S + 60, None),
        (NOW_S + HOUR_S + 61, "service account token has expired"),
    ],
)
def test_a_token_has_its_time_with_a_minute_of_grace(now_s: int, problem: str | None) -> None:
    place = Place()
    found = place.accounts.find(place.token(), now_s)
    assert found == problem if problem else isinstance(found, TokenOwner)


def test_a_token_is_for_its_audiences() -> None:
    place = Place()
    token = place.token(audiences=("a", "b"))
    found = place.accounts.find(token, NOW_S, ("b", "c"))
    assert isinstance(found, TokenOwner)
    assert found.audiences == ("b",)
    expected = f'token audiences ["a" "b"] is invalid for the target audiences ["{ISSUER}"]'
    assert place.accounts.find(token, NOW_S) == expected


def test_a_token_of_another_issuer_is_none_of_ours() -> None:
    place = Place()
    foreign = ServiceAccountTokens("https://elsewhere.example", KEY, place.store)
    assert foreign.find(place.token(), NOW_S) is None
    for text in ("", "x", "a.b", "a.b.c", "..", "eyJ9.eyJ9.x", "é.é.é", "\udc80.\udc80.\udc80"):
        assert place.accounts.find(text, NOW_S) is None, text


def test_a_token_of_another_key_is_refused() -> None:
    place, forger = Place(), Place(OTHER_KEY)
    assert place.accounts.find(forger.token(), NOW_S) == "invalid signature, no keys found"


def _forged(token: str, header: dict[str, Any]) -> str:
    head = base64.urlsafe_b64encode(msgspec.json.encode(header)).rstrip(b"=").decode()
    return ".".join((head, *token.split(".")[1:]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: _forged(token, {"alg": "none", "kid": KEY.key_id}),
        lambda token: _forged(token, {"alg": "HS256", "kid": KEY.key_id}),
        lambda token: _forged(token, {"alg": "ES256"}),
        lambda token: token.rpartition(".")[0] + ".",
        lambda token: token[:-4],
        lambda token: token + "AAAA",
        lambda token: token.rpartition(".")[0] + "." + "A" * 86,
    ],
)
def test_nothing_of_a_token_can_be_changed(spoil: Callable[[str], str]) -> None:
    place = Place()
    found = place.accounts.find(spoil(place.token()), NOW_S)
    assert found is None or isinstance(found, str)


def test_no_single_character_of_a_token_can_be_changed() -> None:
    place = Place()
    token = place.token()
    for index, character in enumerate(token):
        other = "A" if character != "A" else "B"
        changed = f"{token[:index]}{other}{token[index + 1 :]}"
        assert not isinstance(place.accounts.find(changed, NOW_S), TokenOwner), index


def test_a_token_is_invalid_after_its_account_is_deleted_even_if_the_name_is_used_again() -> None:
    place = Place()
    token = place.token()
    assert isinstance(place.accounts.find(token, NOW_S), TokenOwner)
    remove(place.store, "serviceaccounts", "n", "robot")
    assert place.accounts.find(token, NOW_S) == 'serviceaccounts "robot" not found'
    put(place.store, "serviceaccounts", "n", "robot", "u9")
    assert place.accounts.find(token, NOW_S) == "service account UID (u9) does not match claim (u1)"


@pytest.mark.parametrize(("kind", "resource", "namespace"), [("secret", "secrets", "n"), ("node", "nodes", "")])
def test_a_token_is_invalid_after_the_object_that_it_is_bound_to_is_deleted(
    kind: str, resource: str, namespace: str
) -> None:
    place = Place()
    put(place.store, resource, namespace, "x", "u2")
    token = place.token(BoundObject(kind, "x", "u2"))
    assert isinstance(place.accounts.find(token, NOW_S), TokenOwner)
    put(place.store, resource, namespace, "x", "u2", deletionTimestamp="2023-11-14T22:12:19Z")  # 61 s ago
    assert place.accounts.find(token, NOW_S) == "service account token has been invalidated"
    put(place.store, resource, namespace, "x", "u3")
    expected = f"{kind} UID (u3) does not match service account {kind} ref claim (u2)"
    assert place.accounts.find(token, NOW_S) == expected


def test_given_tokens_go_before_signed_ones() -> None:
    place = Place()
    tokens = TokenAuthenticator({"abc": UserInfo("alice", ("g",), "1")}, place.accounts)
    assert tokens.find("abc", NOW_S) == TokenOwner(UserInfo("alice", ("g", "system:authenticated"), "1"), (ISSUER,))
    assert tokens.find("abc", NOW_S, ("elsewhere",)) == "invalid bearer token"
    assert tokens.find("abd", NOW_S) == "invalid bearer token"
    expired = tokens.find(place.token(), NOW_S + 2 * HOUR_S)
    assert expired == "[invalid bearer token, service account token has expired]"


def test_a_header_and_claims_can_be_read_without_trust() -> None:
    read = unverified(Place().token())
    assert read is not None
    assert read[0] == {"alg": "ES256", "kid": KEY.key_id}
    assert read[1]["sub"] == "system:serviceaccount:n:robot"


@pytest.mark.parametrize(("deleted", "is_good"), [("2023-11-14T22:12:20Z", True), ("2023-11-14T22:12:19Z", False)])
def test_a_token_outlives_the_deletion_of_its_account_by_a_minute(deleted: str, is_good: bool) -> None:
    place = Place()
    token = place.token()
    put(place.store, "serviceaccounts", "n", "robot", deletionTimestamp=deleted)
    assert isinstance(place.accounts.find(token, NOW_S), TokenOwner) is is_good


def test_a_bounded_number_of_verified_tokens_is_remembered() -> None:
    place = Place()
    for number in range(4097):
        assert isinstance(place.accounts.find(place.token(audiences=(ISSUER, str(number))), NOW_S), TokenOwner)
    assert len(place.accounts._verified) == 1
