"""`headgate install-crds`: definitions of Volcano and Kueue are left as they are, and the others installed."""

from __future__ import annotations

import asyncio

import pytest

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.cli.wiring.definitions import install_definitions
from headgate.client.installer import InstallResult
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.quota.kinds.definitions import definitions
from unit.install.installation import Installation

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize("definition", [DEFINITIONS[0], definitions(with_older=False)[0]], ids=["volcano", "kueue"])
def test_a_definition_of_another_program_is_left_as_it_is(definition: dict[str, object]) -> None:
    made = Installation()
    meta = definition["metadata"]
    assert isinstance(meta, dict)
    name = meta["name"]
    made.create(PATH, {**definition, "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}}})
    before = made.get(f"{PATH}/{name}")

    async def answer(request: HTTPRequest) -> HTTPResponse:
        return made.request(request)

    done = asyncio.run(install_definitions(InProcessTransport(answer), serve_v1beta1=False))
    actions = {each.name: each.action for each in done if isinstance(each, InstallResult)}
    assert actions.pop(name) == "left as it is"
    assert set(actions.values()) == {"created"}
    assert made.get(f"{PATH}/{name}") == before
