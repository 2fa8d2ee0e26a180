"""The lines of the fields of a YAML document."""

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


def test_the_line_of_a_field_is_that_of_its_key_and_of_an_item_its_first() -> None:
    lines = field_lines(TEXT)
    assert lines.line_of("actions") == 2
    assert lines.line_of("tiers[0].plugins[0].name") == 5
    assert lines.line_of("tiers[0].plugins[0].arguments.a.b") == 7
    assert lines.line_of("tiers[0].plugins[1]") == 8
    assert lines.line_of("tiers[0].plugins[1].enableHierarchy") == 9


def test_a_missing_field_has_the_line_of_its_nearest_parent() -> None:
    lines = field_lines(TEXT)
    assert lines.line_of("tiers[0].plugins[0].arguments.c") == 6
    assert lines.line_of("tiers[3].plugins") == 3
    assert lines.line_of("nowhere") == 1
    assert lines.line_of("") == 1


def test_a_literal_block_has_the_line_of_its_text() -> None:
    lines = field_lines(TEXT)
    assert lines.literals == {"data.inner": 12}
    assert lines.line_of("data.folded") == 14


def test_invalid_yaml_has_lines_up_to_the_error() -> None:
    assert field_lines(b"a: 1\nb: [\n").line_of("a") == 1
    assert field_lines(b"\x00").fields == {}
    assert field_lines(b"").fields == {}
    assert field_lines(b"&a a: *a\n*a : 2\n? [x]\n: 3\n").line_of("a") == 1
