"""Who owns which field of an object: ``metadata.managedFields`` and server-side apply, as Kubernetes v1.35 does it.

The request pipeline calls this room in this order. All objects are in the form that the server prints
(``kube/codec.emit``), except a configuration to apply, which is as the client wrote it.

* Create: decode, defaults, wipe system metadata, then :func:`track_update` with ``live=None``, then mutating
  admission (what it changes is owned by nobody), preparation, validation, store.
* Update and the other patches: the new object, defaulted, then :func:`track_update`, then admission, preparation,
  validation, :func:`keep_times`, store. ``reset`` are the fields that this endpoint does not let a client change.
* Apply: :func:`apply_config`; the object it gives is decoded (a failure is :func:`not_convertible`) and defaulted,
  then goes on like an update, or like a create if there was none. Ownership is settled before defaults and admission.
* Binding a pod is not tracked. For ``scale`` the object is a Scale: :func:`scale_entries` before,
  :func:`parent_entries` after.

Inside: ``paths`` and ``sets`` are the vocabulary, ``shapes`` the schema, ``managers`` the entries, ``update`` and
``configure`` the two operations, the rest their steps.
"""

from headgate.kube.apply.configure import Applied, ApplyProblem, apply_config, not_convertible
from headgate.kube.apply.managers import read_entries
from headgate.kube.apply.naming import manager_name
from headgate.kube.apply.scale import parent_entries, scale_entries
from headgate.kube.apply.shapes import Typed, typed
from headgate.kube.apply.times import keep_times
from headgate.kube.apply.update import track_update
from headgate.kube.apply.versions import Convert, Converted

__all__ = [
    "Applied",
    "ApplyProblem",
    "Convert",
    "Converted",
    "Typed",
    "apply_config",
    "keep_times",
    "manager_name",
    "not_convertible",
    "parent_entries",
    "read_entries",
    "scale_entries",
    "track_update",
    "typed",
]
