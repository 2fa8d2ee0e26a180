"""JSON Merge Patch (RFC 7386): objects are merged key by key, ``null`` deletes, everything else replaces.

As in Kubernetes' API server, new objects lose their ``null`` values, also objects in lists. The *document*, which is
the object that is patched, is not changed; the result shares its unchanged parts.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.patch.go_text import json_type_name
from headgate.apimachinery.patch.result import PatchError, PatchResult, malformed

_NOT_A_PATCH: Final = "Invalid JSON Patch"


def apply_merge_patch(document: Any, patch: Any, *, strict_decoding: bool = True) -> PatchResult | PatchError:
    """``strict_decoding`` is false for ``fieldValidation=Ignore``: then a list replaces the document."""
    if patch is None:
        return malformed(_NOT_A_PATCH)
    if not isinstance(patch, dict):
        if strict_decoding:
            text = f"json: cannot unmarshal {json_type_name(patch)} into Go value of type map[string]interface {{}}"
            return malformed(f"error decoding patch: {text}")
        return PatchResult(_without_nulls(patch)) if isinstance(patch, list) else malformed(_NOT_A_PATCH)
    return PatchResult(_merge(document, patch))


def _merge(document: Any, patch: Any) -> Any:
    if not isinstance(document, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    out = dict(document)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merge(out.get(key), value)
    return out


def _without_nulls(value: Any) -> Any:
    """``value`` without the ``null`` values of its objects; ``null`` items of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
