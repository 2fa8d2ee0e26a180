"""The tables of keys: each key has one meaning in a mode, and the help has all of them."""

from __future__ import annotations

from headgate.terminal.key_bindings import ACTIONS, BINDINGS, LETTERS, NUMBERS, PREFIX, help_lines, key_name
from headgate.terminal.top_screen import TopScreen


def test_a_key_has_one_meaning_in_each_mode() -> None:
    for mode, bindings in BINDINGS.items():
        keys = [key for each in bindings for key in each.keys]
        assert len(keys) == len(set(keys)), mode
    assert not {*NUMBERS, PREFIX} & {*ACTIONS["list"]}
    assert len(LETTERS) == len(NUMBERS)


def test_every_mode_can_be_left_and_the_program_ended() -> None:
    for mode, actions in ACTIONS.items():
        assert actions["ctrl-c"] == "quit", mode
        assert mode == "list" or actions["esc"] in ("back", "drop_filter"), mode


def test_every_key_that_has_a_meaning_is_performed() -> None:
    for mode, actions in ACTIONS.items():
        for key in actions:
            screen = TopScreen("server")
            screen.mode = mode
            screen.press(key)


def test_the_help_names_every_key_of_the_list() -> None:
    text = "\n".join(help_lines())
    for each in BINDINGS["list"]:
        if each.text:
            assert each.text in text
            assert " ".join(map(key_name, each.keys)) in text
