"""The kinds of ``kueue.x-k8s.io``: their definitions, the way between their two versions, and what they may say.

Pure. The engine reads what they hold (``quota/``), ``admission/`` asks their rules, ``client/installing.py`` brings
them to a server.
"""
