"""A contract for import-linter: other packages import only the listed modules of a package.

    [importlinter:contract:interface-quota]
    name = The interface of quota
    type = interface
    package = headgate.quota
    modules =
        engine
        names

A module that is not listed is private to its package. A listed module that no other package imports is an error, too,
so the list says what the interface is.
"""

from __future__ import annotations

from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output


class InterfaceContract(Contract):
    type_name = "interface"

    # import-linter replaces these fields by the values of the configuration.
    package: Any = fields.StringField()
    modules: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        listed = {f"{self.package}.{each}" for each in self.modules}
        private: list[str] = []
        used: set[str] = set()
        for module in sorted(graph.find_descendants(self.package)):
            importers = [each for each in graph.find_modules_that_directly_import(module) if self._is_outside(each)]
            if importers and module in listed:
                used.add(module)
            private += [f"{each} -> {module}" for each in sorted(importers) if module not in listed]
        unused = sorted(listed - used)
        return ContractCheck(kept=not private and not unused, metadata={"private": private, "unused": unused})

    def _is_outside(self, module: str) -> bool:
        return not f"{module}.".startswith(f"{self.package}.")

    def render_broken_contract(self, check: ContractCheck) -> None:
        for each in check.metadata["private"]:
            output.print_error(f"{each}: the imported module is private to {self.package}; list it, or import another")
        for each in check.metadata["unused"]:
            output.print_error(f"{each} is listed as part of the interface, and no other package imports it")
