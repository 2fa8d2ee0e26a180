"""What an installation says of all jobs, as it is typed."""

from __future__ import annotations

import pytest

from headgate.jobs.settings import MANAGED_NAMESPACES, parse_quota_release
from headgate.kube.labels import parse_selector


def test_quota_release_is_said_by_integration() -> None:
    assert parse_quota_release("batch/job=OnTerminal, pod=OnTerminating") == {
        "batch/job": "OnTerminal",
        "pod": "OnTerminating",
    }
    assert parse_quota_release("") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobset=OnTerminal", "names no integration that can be told: write one of batch/job, pod before the ="),
        ("pod=Never", "does not say when quota is free: write pod=OnTerminating or pod=OnTerminal"),
        ("pod", "does not say when quota is free: write pod=OnTerminating or pod=OnTerminal"),
        ("pod=OnTerminal,pod=OnTerminating", "pod is given both OnTerminating and OnTerminal"),
    ],
)
def test_what_cannot_be_said_is_refused_with_what_can(text: str, says: str) -> None:
    problem = parse_quota_release(text)
    assert isinstance(problem, str)
    assert problem.endswith(says)


def test_the_namespaces_of_the_system_are_left_alone_and_the_default_reads_as_it_is_shown() -> None:
    assert parse_selector(str(MANAGED_NAMESPACES)) == MANAGED_NAMESPACES
    assert not MANAGED_NAMESPACES.matches({"kubernetes.io/metadata.name": "kube-system"})
    assert MANAGED_NAMESPACES.matches({"kubernetes.io/metadata.name": "default"})
