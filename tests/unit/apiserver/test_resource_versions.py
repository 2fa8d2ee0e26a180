"""resourceVersion and continue tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apimachinery.api_errors import StatusError
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.resource_versions import ContinuePosition, decode_token, encode_token, parse_revision
from headgate.store import Revision


def kind(plural: str) -> ServedKind:
    found = BUILTIN.by_resource("", "v1", plural)
    assert found is not None
    return found


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(namespace=NAMES, name=NAMES, revision=st.integers(1, 2**62), whole_cluster=st.booleans())
def test_a_continue_token_has_the_position_of_the_list(
    namespace: str, name: str, revision: int, whole_cluster: bool
) -> None:
    position = ContinuePosition(Revision(revision), (namespace, name))
    scope = "" if whole_cluster else namespace
    assert decode_token(kind("pods"), scope, encode_token(kind("pods"), scope, position)) == position


@given(name=NAMES)
def test_a_token_of_a_cluster_scoped_kind_has_no_namespace(name: str) -> None:
    position = ContinuePosition(Revision(7), ("", name))
    assert decode_token(kind("nodes"), "", encode_token(kind("nodes"), "", position)) == position


@pytest.mark.parametrize("token", ["x", "!!!", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "bm90IGpzb24"])
def test_a_token_that_is_not_ours_is_a_bad_request(token: str) -> None:
    refused = decode_token(kind("pods"), "t", token)
    assert isinstance(refused, StatusError)
    assert refused.code == 400
    assert refused.message.startswith("invalid continue token: continue key is not valid")


@given(st.text(max_size=40))
def test_no_text_at_all_makes_a_token_raise(token: str) -> None:
    assert isinstance(decode_token(kind("pods"), "t", token), StatusError | ContinuePosition)


def test_a_revision_is_a_number_or_nothing() -> None:
    assert parse_revision("") == 0
    assert parse_revision("0") == 0
    assert parse_revision("17") == 17


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "99999999999999999999", "²"])
def test_anything_else_is_a_bad_request(text: str) -> None:
    refused = parse_revision(text)
    assert isinstance(refused, StatusError)
    assert refused.code == 400
