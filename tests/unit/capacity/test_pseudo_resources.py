"""Pseudo-resources in the ask of a unit: no name that a client writes is equal to one."""

from __future__ import annotations

import pytest

from headgate.capacity.cache.pseudo_resources import PseudoResource, requests_in
from headgate.capacity.cache.run_times import RUN_TIME, run_time_s_of
from headgate.capacity.ordering.grant_windows import WINDOW, pods_in_window
from headgate.capacity.ordering.held_units import RESIZED, names_that_decide, set_aside_of, with_set_aside
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK

_NAMES = (
    RUN_TIME,
    WINDOW,
    RESIZED[0],
    ENQUEUE_CHECK[0],
    *sorted(names_that_decide(["cpu", "example.com/device"]), key=str),
)


@pytest.mark.parametrize("name", _NAMES)
def test_a_string_with_the_same_text_is_another_name(name: PseudoResource) -> None:
    text = str(name)
    assert type(text) is str
    assert (text == name, name == text, text != name, name != text) == (False, False, True, True)
    assert text not in {name: 1}
    assert name not in {text: 1}
    assert name == PseudoResource(text)
    assert {name: 1}[PseudoResource(text)] == 1


@pytest.mark.parametrize("name", _NAMES)
def test_a_resource_of_such_a_name_is_only_a_resource(name: PseudoResource) -> None:
    ask = ((str(name), 1),)
    assert requests_in(ask) == {str(name): 1}
    assert run_time_s_of(ask) is None
    assert pods_in_window(ask) == 0
    assert set_aside_of(ask) == {}
    assert RESIZED not in ask
    assert ENQUEUE_CHECK not in ask


def test_what_is_set_aside_is_read_from_the_ask() -> None:
    ask = with_set_aside((("cpu", 2),), {"cpu": 1, "example.com/device": 3})
    assert set_aside_of(ask) == {"cpu": 1, "example.com/device": 3}
    assert requests_in(ask) == {"cpu": 2}
