"""Field labels of kinds that share a storage: each is found among the fields that are kept with an item."""

from __future__ import annotations

import pytest

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.reading import kept_names

VIEWS = [kind for kind in BUILTIN.kinds() if not kind.is_stored_version and kind.stored]


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: f"{kind.plural}.{kind.version}.{kind.group}")
def test_every_field_label_of_a_version_that_is_not_stored_has_its_value_kept(kind: Kind) -> None:
    stored = BUILTIN.stored_view(kind)
    assert kept_names(kind, stored).keys() == {each.label for each in kind.field_labels}
