"""Storage as the scheduler sees it: volumes, claims, classes, drivers; what fits whom, and what is promised to whom.

``part.py`` is the part of ``scheduling/cluster.py`` that keeps it all; ``objects.py`` reads the wire, ``shelf.py``
keeps objects together with what is assumed of them, ``pool.py`` finds free volumes, ``wanted.py`` and ``provisions.py``
say what a pod needs and where it can have it, ``wakers.py`` what may help those who wait. The rules are put to use by
the plugins for volumes in ``scheduling/plugins/``.
"""
