"""docs/configuration.md is the page that ``headgate config docs`` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.configuration.decoder import parse
from headgate.cli.configuration.types import Configuration, schema_fields
from headgate.cli.main import main
from headgate.kube.serializer.yaml_decoder import decode_yaml
from headgate.scheduling.config.plugin_registry import BUILT_IN

REPOSITORY = Path(__file__).resolve().parents[4]
PAGE = REPOSITORY / "docs" / "configuration.md"
EXAMPLES = REPOSITORY / "examples" / "configuration"


def test_the_committed_page_is_the_generated_one() -> None:
    run = CliRunner().invoke(main, ["config", "docs"])
    assert run.exit_code == 0
    assert PAGE.read_text() == run.output, "write it again: headgate config docs > docs/configuration.md"


def test_the_page_names_every_field() -> None:
    text = PAGE.read_text()
    assert all(f"`{each.path}`" in text or f"### {each.path}\n" in text for each in schema_fields())
    assert all(each.description for each in schema_fields())


def test_the_example_of_the_page_is_valid() -> None:
    example = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    assert isinstance(parse(decode_yaml(example.encode()).value, BUILT_IN), Configuration)


@pytest.mark.parametrize("file", sorted(EXAMPLES.iterdir()), ids=lambda file: file.name)
def test_the_examples_are_valid(file: Path) -> None:
    run = CliRunner().invoke(main, ["config", "check", str(file)])
    assert run.exit_code == 0, run.output
