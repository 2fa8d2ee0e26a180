"""Custom kinds: from CustomResourceDefinitions in the store to rows of the table of kinds.

``catalog.py`` keeps the table that requests are served by, ``definition.py`` makes the rows of one definition,
``strategy.py`` their steps of a write, ``columns.py`` their columns; ``upkeep.py`` writes what follows from a write of
a definition: accepted names, conditions, and the end of its objects when it ends.
"""
