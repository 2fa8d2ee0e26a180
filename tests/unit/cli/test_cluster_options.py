"""The size of simulated nodes: an invalid size is refused before anything starts."""

from __future__ import annotations

import pytest

from headgate.cli.embedded.cluster_options import parse_sizes
from headgate.cli.options.address import parse_address

OWN = {"cpu": "8", "memory": "32Gi"}


def test_sizes_that_a_node_can_have_are_kept_as_typed() -> None:
    assert parse_sizes(OWN, ["nvidia.com/gpu=4", "example.com/none=0", "pods=20", "hugepages-2Mi=1Gi"]) == {
        **OWN,
        "nvidia.com/gpu": "4",
        "example.com/none": "0",
        "pods": "20",
        "hugepages-2Mi": "1Gi",
    }


@pytest.mark.parametrize(
    ("cpu", "words"),
    {
        "-3": "more than 0",
        "0": "more than 0",
        "NaN": "not an amount of cpu",
        "": "not an amount",
        "1e30": "so much cpu",
    }.items(),
)
def test_a_cpu_that_no_node_can_have_is_refused(cpu: str, words: str) -> None:
    found = parse_sizes({**OWN, "cpu": cpu}, [])
    assert isinstance(found, str)
    assert found.startswith(f"--node-cpu {cpu!r}: ")
    assert words in found


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "nvidia.com/gpu": "NAME=QUANTITY",
        "nvidia.com/gpu=-1": "not be less than 0",
        "nvidia.com/gpu=0.5": "whole numbers",
        "=4": "not the name of a resource",
        "gpu=4": "not the name of a resource",
        "cpu=4": "use --node-cpu",
        "example.com/a=99999999999999999999": "no node has so much",
    }.items(),
)
def test_a_further_resource_that_no_node_can_have_is_refused(text: str, words: str) -> None:
    found = parse_sizes(OWN, [text])
    assert isinstance(found, str)
    assert words in found


def test_a_resource_that_is_named_twice_is_refused() -> None:
    assert parse_sizes(OWN, ["example.com/a=1", "example.com/a=2"]) == (
        "--node-resource 'example.com/a=2': it is given twice"
    )


@pytest.mark.parametrize("text", ["host", "host:", "host:-1", "host:65536", "host:²", "host:١٢", f"host:{'9' * 5000}"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    assert isinstance(parse_address("--listen", text, "127.0.0.1:6443"), str)
