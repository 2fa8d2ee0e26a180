"""The scheme of a kind: how its objects are decoded, defaulted and encoded, and how their managed fields are recorded.

A built-in kind gets its scheme from the schema tables (:func:`scheme_from_schemas`), a custom kind from its compiled
definition (``apiserver/custom/``). The verbs use both in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from headgate.apimachinery.apply import ParseableType, parseable_type
from headgate.apimachinery.codec.codec import Decoded, convert, wire_form
from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.strategy import STRATEGIES, Strategy
from headgate.kube.schema import GroupVersionKind, Schemas

if TYPE_CHECKING:
    from headgate.apimachinery.structural.schema_cost import SchemaCost
    from headgate.apiserver.kinds.kind import FieldLabel
    from headgate.apiserver.printers.printer import Printer
    from headgate.apiserver.webhooks.conversion import ConversionWebhook

Object = dict[str, Any]

_PLAIN: Final = Strategy()


def _same(obj: Object) -> Object:
    """For kinds whose wire form is stored as it is."""
    return obj


ConvertObject = Callable[[Object, str], Object]  # to another version
EVERY_REVISION: Final = 2**63  # a value of `converts_up_to` above all revisions: every object is converted


class ScalePaths(NamedTuple):
    """The paths of the replica counts in ``spec`` and ``status``; ``selector`` is empty if there is none."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


class KindScheme(msgspec.Struct, frozen=True, kw_only=True):
    """How the objects of one kind are read and written.

    ``decode`` converts a JSON value to an object. ``default`` sets its defaults in place. ``wire_form`` returns the
    object as the server sends it (docs/glossary.md). ``drop_fields_not_stored`` removes the fields of a wire form that
    are not stored, such as empty collections. ``typed`` is the schema for server-side apply.

    For custom kinds: ``from_stored`` converts a stored object to the version of this kind and its present schema; it
    may change its argument. Objects with a revision above ``converts_up_to`` are stored in that form already.
    ``to_stored`` is the reverse conversion; None if there is nothing to do. ``stored_labels``: the fields whose values
    are stored with each object for field selectors.
    """

    decode: Callable[[Any], Decoded]
    default: Callable[[Object], None]
    wire_form: Callable[[Object], Object]
    typed: ParseableType
    strategy: Strategy
    drop_fields_not_stored: Callable[[Object], Object] = _same
    schema: Object = {}  # of a custom kind, as in its CustomResourceDefinition
    cost: SchemaCost | None = None  # of a custom kind
    printer: Printer | None = None
    scale_printer: Printer | None = None
    scale: ScalePaths | None = None
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    converts_up_to: int = EVERY_REVISION
    stored_labels: tuple[FieldLabel, ...] = ()
    convert: ConvertObject | None = None  # between versions, if more than apiVersion changes
    webhook: ConversionWebhook | None = None  # the conversion webhook, if there is one
    bind: Callable[[ConvertObject], KindScheme] | None = None  # a copy of this scheme that converts with the argument


def scheme_from_schemas(schemas: Schemas, type_name: str, gvk: GroupVersionKind) -> KindScheme:
    return KindScheme(
        decode=partial(convert, schemas, type_name),
        default=DEFAULTERS.get(gvk, _no_defaults),
        wire_form=partial(wire_form, schemas, type_name),
        typed=parseable_type(schemas, type_name),
        strategy=STRATEGIES.get((gvk.group, gvk.kind), _PLAIN),
        drop_fields_not_stored=partial(drop_empty_collections, schemas, type_name),
    )


def _no_defaults(obj: Object) -> None:
    """For kinds without defaults."""
