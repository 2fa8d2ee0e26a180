"""Accept and Content-Type."""

from __future__ import annotations

import pytest

from headgate.apimachinery.api_errors import StatusError
from headgate.apiserver.request import negotiation
from headgate.apiserver.request.negotiation import JSON, PROTOBUF, YAML, Output

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", Output()),
        ("*/*", Output()),
        ("application/json", Output()),
        ("application/yaml", Output(YAML, error_media_type=YAML)),
        ("application/vnd.kubernetes.protobuf,application/json", Output()),
        (KUBECTL_GET, Output(JSON, "Table", "v1")),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Output(JSON, "PartialObjectMetadataList")),
        ("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json", Output()),
        ("application/yaml;q=0.5,application/json", Output()),
    ],
)
def test_the_best_form_that_we_speak_is_chosen(accept: str, chosen: Output) -> None:
    assert negotiation.output(accept) == chosen


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "application/cbor"])
def test_a_form_that_we_do_not_speak_is_refused_with_the_list_of_forms(accept: str) -> None:
    refused = negotiation.output(accept)
    assert isinstance(refused, StatusError)
    assert refused.code == 406
    assert "application/json, application/yaml" in refused.message


def test_a_body_is_json_unless_it_says_that_it_is_yaml_or_protobuf() -> None:
    assert negotiation.input_type("") == JSON
    assert negotiation.input_type("application/json; charset=utf-8") == JSON
    assert negotiation.input_type("application/yaml") == YAML
    assert negotiation.input_type("application/vnd.kubernetes.protobuf; stream=watch") == PROTOBUF
    refused = negotiation.input_type("application/cbor")
    assert isinstance(refused, StatusError)
    assert refused.code == 415


@pytest.mark.parametrize(
    ("param", "agent", "pretty"),
    [("", "kubectl/v1.35.8", False), ("", "curl/8.0", True), ("false", "curl/8.0", False), ("1", "kubectl", True)],
)
def test_people_with_curl_get_indented_json_unless_they_say_otherwise(param: str, agent: str, pretty: bool) -> None:
    assert negotiation.wants_pretty(param, agent) is pretty
