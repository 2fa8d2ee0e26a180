"""YAML as the commands print it: keys in the order of the objects, and no anchors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


class _NoAliasDumper(yaml.SafeDumper):
    """Writes shared parts in full, without anchors and aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def dump_all(objects: Iterable[Any]) -> str:
    """The objects as documents of one stream."""
    return yaml.dump_all(objects, Dumper=_NoAliasDumper, sort_keys=False, explicit_start=True, width=120)


def dump(document: Any) -> str:
    """One document."""
    return yaml.dump(document, Dumper=_NoAliasDumper, sort_keys=False, allow_unicode=True, width=120)
