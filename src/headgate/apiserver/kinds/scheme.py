"""How objects of a kind are decoded, defaulted, encoded and owned: everything that the verbs need of a kind's type.

A built-in kind gets its scheme from the schema tables (:func:`scheme_from_schemas`), a custom kind from its compiled
definition (``apiserver/custom/``). The verbs never need to know which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from headgate.apimachinery.apply import ParseableType, parseable_type
from headgate.apimachinery.codec.codec import Decoded, convert, emit
from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.strategy import STRATEGIES, Strategy
from headgate.kube.schema import GroupVersionKind, Schemas

if TYPE_CHECKING:
    from headgate.apiserver.kinds.kind import FieldLabel
    from headgate.apiserver.printers.printer import Printer
    from headgate.apiserver.webhooks.conversion import ConversionWebhook

Object = dict[str, Any]

_PLAIN: Final = Strategy()


def _same(obj: Object) -> Object:
    """For kinds whose stored form is the printed form."""
    return obj


ConvertObject = Callable[[Object, str], Object]  # to another version
ALWAYS: Final = 2**63  # above every revision


class ScalePaths(NamedTuple):
    """The paths of the replica counts; ``selector`` is empty if there is none."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


class KindScheme(msgspec.Struct, frozen=True, kw_only=True):
    """``decode`` makes an object of a JSON value, ``default`` completes it in place, ``emit`` prints it, ``normalize``
    removes from a printed object what is not stored, such as empty collections.

    ``from_stored`` converts an object that was stored at revision ``since`` or earlier; it may change its argument.
    ``to_stored`` is the reverse conversion, None if there is nothing to do.
    """

    decode: Callable[[Any], Decoded]
    default: Callable[[Object], None]
    emit: Callable[[Object], Object]
    typed: ParseableType
    strategy: Strategy
    normalize: Callable[[Object], Object] = _same
    custom: bool = False
    schema: Object = {}  # of a custom kind, as in its definition
    printer: Printer | None = None
    scale_printer: Printer | None = None
    scale: ScalePaths | None = None
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    since: int = ALWAYS
    stored_labels: tuple[FieldLabel, ...] = ()
    convert: ConvertObject | None = None  # between versions, if more than apiVersion changes
    webhook: ConversionWebhook | None = None  # the conversion webhook, if there is one
    bind: Callable[[ConvertObject], KindScheme] | None = None  # this scheme with the given conversion


def scheme_from_schemas(schemas: Schemas, type_name: str, gvk: GroupVersionKind) -> KindScheme:
    return KindScheme(
        decode=partial(convert, schemas, type_name),
        default=DEFAULTERS.get(gvk, _no_defaults),
        emit=partial(emit, schemas, type_name),
        typed=parseable_type(schemas, type_name),
        strategy=STRATEGIES.get((gvk.group, gvk.kind), _PLAIN),
        normalize=partial(drop_empty_collections, schemas, type_name),
    )


def _no_defaults(obj: Object) -> None:
    """For kinds without defaults."""
