"""The kinds of ``kueue.x-k8s.io``: definitions, conversion between their two versions, and validation.

It does no I/O. ``quota/engine.py`` reads the objects, ``admission/quota_kinds.py`` calls the validation, and
``client/installer.py`` installs the definitions on a server.
"""
