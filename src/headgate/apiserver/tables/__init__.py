"""Server-side printing: what ``kubectl get`` shows of each kind.

``printer.py`` says what a printer is, ``cells.py`` holds texts that several kinds share, one module per family holds
the printers, ``registry.py`` lists them and ``build.py`` makes a ``meta.k8s.io`` Table of objects.
"""

from headgate.apiserver.tables.build import table, table_visits, visible_metadata

__all__ = ["table", "table_visits", "visible_metadata"]
