"""Server-side printing: the columns that ``kubectl get`` shows for each kind.

``printer.py`` defines a printer, ``cells.py`` has texts that several kinds share, ``registry.py`` lists the printers,
and ``table.py`` builds a ``meta.k8s.io`` Table from objects. The other modules have the printers of related kinds.
"""

from headgate.apiserver.printers.table import table, table_visits, visible_metadata

__all__ = ["table", "table_visits", "visible_metadata"]
