"""Installation of definitions: an object that may not be read does not count as missing."""

from __future__ import annotations

import msgspec
import pytest

from headgate.client.installer import InstallRefused, install
from headgate.http.transport import HTTPResponse

DEFINITION = {"metadata": {"name": "things.example.com"}, "spec": {}}


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "missing right: get customresourcedefinitions.apiextensions.k8s.io"), (503, "the server returned 503")],
)
def test_a_definition_that_may_not_be_read_is_not_written_over(status: int, words: str) -> None:
    steps = install(DEFINITION)
    assert next(steps).request.method == "GET"
    with pytest.raises(StopIteration) as done:
        steps.send(HTTPResponse(status, {}, msgspec.json.encode({"message": "said no"})))
    assert isinstance(done.value.value, InstallRefused)
    assert words in done.value.value.text
