"""Field ownership: ``metadata.managedFields`` and server-side apply, as in Kubernetes v1.35.

The API server calls this package in the following order. All objects are in wire form
(``apimachinery/codec/encoder.py``), except the configuration to apply, which is as the client wrote it.

* Create: decode, default, clear system metadata, then :func:`track_update` with ``live=None``, then mutating admission
  (no manager owns the fields that it changes), preparation, validation, store.
* Update and the patches other than apply: the new object, defaulted, then :func:`track_update`, then admission,
  preparation, validation, :func:`keep_unchanged_times`, store. ``reset`` are the fields that a client cannot change at
  this endpoint.
* Apply: :func:`apply_config`. Its result is decoded (a failure is :func:`not_convertible`) and defaulted, then handled
  like an update, or like a create if there was no object. Ownership is computed before defaults and admission.
* The binding of a pod changes no managed fields. The object of a request to ``scale`` is a Scale:
  :func:`scale_entries` converts the managed fields of the workload to those of the Scale, and :func:`parent_entries`
  converts them back.

``path_elements.py`` and ``field_sets.py`` define paths and sets of fields, and ``merge_schema.py`` the schema.
``managed_fields.py`` reads and writes the entries. ``update.py`` and ``server_side_apply.py`` are the two operations;
the other modules are their steps.
"""

from headgate.apimachinery.apply.managed_fields import keep_unchanged_times, read_entries
from headgate.apimachinery.apply.manager_names import manager_name
from headgate.apimachinery.apply.merge_schema import ParseableType, parseable_type
from headgate.apimachinery.apply.scale import parent_entries, scale_entries
from headgate.apimachinery.apply.server_side_apply import ApplyError, ApplyResult, apply_config, not_convertible
from headgate.apimachinery.apply.update import track_update
from headgate.apimachinery.apply.version_converter import Convert, ConvertedObject

__all__ = [
    "ApplyError",
    "ApplyResult",
    "Convert",
    "ConvertedObject",
    "ParseableType",
    "apply_config",
    "keep_unchanged_times",
    "manager_name",
    "not_convertible",
    "parent_entries",
    "parseable_type",
    "read_entries",
    "scale_entries",
    "track_update",
]
