"""Questions about a label selector that validation asks beside its rules (``labels.py``): does it select anything?

Matching is ``kube/labels.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.kube import names
from headgate.kube.errors import FieldErrors, invalid
from headgate.kube.labels import from_label_selector
from headgate.kube.validation.labels import validate_label_selector


def has_invalid_value(selector: Mapping[str, Any] | None) -> bool:
    """Whether an expression of a stored selector holds a value that today's rules refuse."""
    return any(
        names.is_valid_label_value(value)
        for requirement in (selector or {}).get("matchExpressions") or ()
        for value in requirement.get("values") or ()
    )


def is_empty(selector: Mapping[str, Any] | None) -> bool:
    """Whether it has no requirement at all, and so selects everything."""
    return not (selector or {}).get("matchLabels") and not (selector or {}).get("matchExpressions")


def selects_template(selector: dict[str, Any] | None, template: Mapping[str, Any], path: str) -> FieldErrors:
    """A workload must select the pods that it creates. ``path`` is that of the template."""
    labels = template.get("metadata", {}).get("labels")
    # A selector with an error of its own is reported for that and matched with nothing.
    if validate_label_selector(selector, "") or from_label_selector(selector).matches(labels):
        return []
    return [invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")]
