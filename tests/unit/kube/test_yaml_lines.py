"""On which line a field of a YAML document stands."""

from __future__ import annotations

from headgate.kube.serializer.yaml_lines import field_lines

TEXT = b"""\
# a comment
actions: x
tiers:
- plugins:
  - name: gang   # the first
    arguments:
      a.b: 1
  - {name: drf,
     enableHierarchy: true}
data:
  inner: |
    one
    two
  folded: >
    three
"""


def test_a_field_stands_where_its_key_does_and_an_item_where_it_begins() -> None:
    lines = field_lines(TEXT)
    assert lines.of("actions") == 2
    assert lines.of("tiers[0].plugins[0].name") == 5
    assert lines.of("tiers[0].plugins[0].arguments.a.b") == 7
    assert lines.of("tiers[0].plugins[1]") == 8
    assert lines.of("tiers[0].plugins[1].enableHierarchy") == 9


def test_a_field_that_is_not_there_is_looked_for_around_it() -> None:
    lines = field_lines(TEXT)
    assert lines.of("tiers[0].plugins[0].arguments.c") == 6
    assert lines.of("tiers[3].plugins") == 3
    assert lines.of("nowhere") == 1
    assert lines.of("") == 1


def test_a_text_that_is_written_as_a_block_has_lines_of_its_own() -> None:
    lines = field_lines(TEXT)
    assert lines.literals == {"data.inner": 12}
    assert lines.of("data.folded") == 14


def test_what_cannot_be_read_has_lines_as_far_as_it_can() -> None:
    assert field_lines(b"a: 1\nb: [\n").of("a") == 1
    assert field_lines(b"\x00").fields == {}
    assert field_lines(b"").fields == {}
    assert field_lines(b"&a a: *a\n*a : 2\n? [x]\n: 3\n").of("a") == 1
