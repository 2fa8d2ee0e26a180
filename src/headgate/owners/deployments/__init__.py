"""Deployments: which ReplicaSet is wanted now, how large each may be, and how the rollout goes.

``controller.py`` hears, wakes and orders the steps; the others decide, and are plain functions on values: ``sets.py``
reads ReplicaSets, ``revisions.py`` finds the new one among them and keeps history, ``rolling.py`` and ``scaling.py``
say how large each is to be, ``progress.py`` and ``status.py`` say what is reported. Pods are made by ReplicaSets.
"""
