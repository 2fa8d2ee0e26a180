"""Parsing of kubeconfigs: the results, and the messages for unsupported settings."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from headgate.client.exec_plugin import ExecPlugin
from headgate.client.kubeconfig import InlineOrFile, KubeconfigFile, RESTConfig, read_rest_config, read_sources

V1 = "client.authentication.k8s.io/v1"
V1ALPHA1 = "client.authentication.k8s.io/v1alpha1"


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
    assert read_rest_config(text) == RESTConfig(
        server="https://127.0.0.1:6443", namespace="team", authority=InlineOrFile(data=b"CA"), token="secret"
    )


def test_another_context_can_be_named() -> None:
    access = read_rest_config(config(), "bare")
    assert isinstance(access, RESTConfig)
    assert access.namespace == "default"


def test_inline_data_wins_over_a_file() -> None:
    user = {
        "client-certificate": "a.crt",
        "client-certificate-data": encoded(b"CRT"),
        "client-key": "a.key",
        "tokenFile": "token",
    }
    access = read_rest_config(config({"tls-server-name": "kube", "insecure-skip-tls-verify": True}, user))
    assert isinstance(access, RESTConfig)
    assert access.client_certificate == InlineOrFile(data=b"CRT")
    assert access.client_key == InlineOrFile(file="a.key")
    assert (access.token_file, access.tls_server_name, access.insecure) == ("token", "kube", True)


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        ("a: [", "", "kubeconfig is not YAML"),
        ("", "", "empty"),
        ("[]", "", "not a mapping"),
        ("{}", "", "no current-context"),
        (config(), "elsewhere", "no context 'elsewhere'; it has: bare, here, there"),
        (config(), "there", "names cluster 'nowhere'"),
        (config({"server": "127.0.0.1"}), "", "not an http(s) address"),
        (config({"proxy-url": "http://p"}), "", "proxy-url"),
        (config({"certificate-authority-data": "%"}), "", "certificate-authority-data is not base64"),
        (config({"insecure-skip-tls-verify": True, "certificate-authority": "x"}), "", "only one of them"),
        (config(user={"auth-provider": {"name": "gcp"}}), "", "auth-provider"),
        (config(user={"username": "x", "password": "y"}), "", "username"),
        (config(user={"as": "x"}), "", "(as)"),
        (config(user={"as-groups": ["x"]}), "", "as-groups"),
        (config(user={"exec": {"apiVersion": V1}}), "", "exec has no command"),
        (config(user={"exec": {"command": "x", "apiVersion": V1ALPHA1}}), "", "exec.apiVersion"),
        (config(user={"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Always"}}), "", "Always"),
        (config(user={"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "x"}}), "", "interactiveMode"),
        (config(user={"exec": {"command": "x", "apiVersion": V1, "env": [{}]}}), "", "exec.env"),
        (config(user={"client-key": "x"}), "", "a key without its certificate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(text: str, context: str, words: str) -> None:
    refusal = read_rest_config(text, context)
    assert isinstance(refusal, str)
    assert words in refusal


def test_of_several_files_the_first_entry_of_a_name_counts_whole_and_files_start_beside_it() -> None:
    first = {
        "contexts": [{"name": "both", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"tokenFile": "t"}}],
    }
    second = {
        "current-context": "both",
        "users": [{"name": "u", "user": {"token": "never seen"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://there", "certificate-authority": "/ca.crt"}}],
    }
    sources = [KubeconfigFile(yaml.safe_dump(first), "/one"), KubeconfigFile(yaml.safe_dump(second), "/two")]
    assert read_sources(sources) == RESTConfig(
        server="https://there", authority=InlineOrFile(file="/ca.crt"), token_file="/one/t", token=""
    )


def test_a_broken_file_among_several_is_named() -> None:
    refusal = read_sources([KubeconfigFile(config()), KubeconfigFile("a: [", name="/two/config")])
    assert isinstance(refusal, str)
    assert refusal.startswith("/two/config is not YAML")


def test_a_plugin_gets_the_cluster_if_it_asks_and_its_relative_path_starts_at_the_file() -> None:
    cluster = {
        "certificate-authority-data": encoded(b"CA"),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    program = {
        "apiVersion": V1,
        "command": "./bin/login",
        "args": ["--now"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    access = read_rest_config(config(cluster, {"exec": program}), folder="/etc/kube")
    assert isinstance(access, RESTConfig)
    assert access.plugin == ExecPlugin(
        version=V1,
        command="/etc/kube/./bin/login",
        arguments=("--now",),
        environment=(("A", "1"),),
        cluster={
            "server": "https://127.0.0.1:6443/",
            "certificate-authority-data": encoded(b"CA"),
            "config": {"audience": "a"},
        },
    )


def test_a_file_that_nests_without_end_is_refused_in_one_sentence() -> None:
    for depth in (5_000, 200_000):
        problem = read_rest_config("[" * depth + "]" * depth)
        assert isinstance(problem, str)
        assert problem.startswith("kubeconfig is not YAML: ")
        assert "exceeded max depth" in problem
