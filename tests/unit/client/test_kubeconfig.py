"""Reading a kubeconfig: what it gives, and what is refused in words."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from headgate.client.kubeconfig import Access, Blob, read_access


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
                {"name": "there", "context": {"cluster": "nowhere", "user": "u"}},
                {"name": "bare", "context": {"cluster": "c"}},
            ],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
        }
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_current_context_gives_server_authority_and_token() -> None:
    text = config({"certificate-authority-data": encoded(b"CA")}, {"token": "secret"})
    assert read_access(text) == Access(
        server="https://127.0.0.1:6443", namespace="team", authority=Blob(data=b"CA"), token="secret"
    )


def test_another_context_can_be_named() -> None:
    access = read_access(config(), "bare")
    assert isinstance(access, Access)
    assert access.namespace == "default"


def test_inline_data_wins_over_a_file() -> None:
    user = {
        "client-certificate": "a.crt",
        "client-certificate-data": encoded(b"CRT"),
        "client-key": "a.key",
        "tokenFile": "token",
    }
    access = read_access(config({"tls-server-name": "kube", "insecure-skip-tls-verify": True}, user))
    assert isinstance(access, Access)
    assert access.client_certificate == Blob(data=b"CRT")
    assert access.client_key == Blob(file="a.key")
    assert (access.token_file, access.tls_server_name, access.insecure) == ("token", "kube", True)


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        ("a: [", "", "kubeconfig is not YAML"),
        ("", "", "empty"),
        ("{}", "", "no current-context"),
        (config(), "elsewhere", "no context 'elsewhere'; it has: bare, here, there"),
        (config(), "there", "names cluster 'nowhere'"),
        (config({"server": "127.0.0.1"}), "", "not an http(s) address"),
        (config({"proxy-url": "http://p"}), "", "proxy-url"),
        (config({"certificate-authority-data": "%"}), "", "certificate-authority-data is not base64"),
        (config(user={"exec": {"command": "x"}}), "", "runs a program to log in"),
        (config(user={"username": "x", "password": "y"}), "", "by password"),
        (config(user={"client-key": "x"}), "", "a key without its certificate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(text: str, context: str, words: str) -> None:
    refusal = read_access(text, context)
    assert isinstance(refusal, str)
    assert words in refusal
