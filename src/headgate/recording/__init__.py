"""Recordings: the changes of a cluster's objects in one compact file that grows by change.

``changes.py`` has the values that a recording consists of, ``resources.py`` the recorded resources and the rights that
they need. ``records.py`` encodes changes as records, ``blocks.py`` frames records in the file, ``history.py`` puts the
changes of all resources in the order of revisions. Files and watches are in ``io/``.
"""
