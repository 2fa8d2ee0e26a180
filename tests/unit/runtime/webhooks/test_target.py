"""Parsing of the address of the webhooks."""

from __future__ import annotations

import pytest

from headgate.runtime.webhooks.target import WebhookTarget, parse_service, parse_url


def test_a_url_is_taken_with_its_path() -> None:
    target = parse_url("https://hooks.example.com:8443/headgate/")
    assert isinstance(target, WebhookTarget)
    assert target.client_config("/pods/mutate", "Y2E=") == {
        "url": "https://hooks.example.com:8443/headgate/pods/mutate",
        "caBundle": "Y2E=",
    }
    assert target.name == target.names[0] == "hooks.example.com"


def test_an_ipv6_address_is_a_name_too() -> None:
    target = parse_url("https://[fd00::1]:8443")
    assert isinstance(target, WebhookTarget)
    assert target.name == "fd00::1"


@pytest.mark.parametrize(
    "text", ["http://h:1", "https://", "h:1", "", "https://h:x", "https://u@h", "https://h?q=1", "https://h#f"]
)
def test_an_invalid_url_is_an_error(text: str) -> None:
    problem = parse_url(text)
    assert isinstance(problem, str)
    assert problem.startswith("--webhook-url ")


def test_a_service_is_called_by_its_name_inside_the_cluster() -> None:
    target = parse_service("ns/name:8443")
    assert isinstance(target, WebhookTarget)
    assert target.names[:2] == ("name.ns.svc", "name.ns.svc.cluster.local")
    service = {"namespace": "ns", "name": "name", "path": "/p", "port": 8443}
    assert target.client_config("/p", "") == {"service": service, "caBundle": ""}
    default = parse_service("ns/name")
    assert isinstance(default, WebhookTarget)
    assert default.port == 443


@pytest.mark.parametrize("text", ["", "name", "/name", "ns/", "ns/name:", "ns/name:0", "ns/name:70000", "ns/name:x"])
def test_an_invalid_service_is_an_error(text: str) -> None:
    problem = parse_service(text)
    assert isinstance(problem, str)
    assert problem.startswith("--webhook-service ")
