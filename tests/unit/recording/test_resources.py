from __future__ import annotations

import re
from pathlib import Path

import yaml

from headgate.recording.resources import BY_NAME, read_role

ROOT = Path(__file__).parents[3]


def test_the_example_grants_what_the_command_prints() -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples" / "record-rights.yaml").read_text()))
    assert read_role() in documents
    assert all(rule["verbs"] == ["list", "watch"] for rule in read_role()["rules"])


def test_the_docs_list_every_recorded_resource_and_its_use() -> None:
    rows = dict(re.findall(r"^\| `([a-z][a-z0-9.-]*)` \| (.+) \|$", (ROOT / "docs" / "record.md").read_text(), re.M))
    assert rows == {name: each.use for name, each in BY_NAME.items()}
