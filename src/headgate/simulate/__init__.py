"""``headgate simulate``: the engines on a virtual clock, with traces of jobs, variants and reports.

``simulation.py`` runs one trace through the engines; ``experiment.py`` compares variants over seeds; ``report.py``
writes the result as HTML. The package does no I/O: ``cli/commands/simulate.py`` reads and writes the files.
"""
