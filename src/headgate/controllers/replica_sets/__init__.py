"""ReplicaSets: the requested number of pods from one template.

``controller.py`` watches, enqueues, decides how many pods to create or delete, and puts the steps in order.
``counts.py`` keeps counts so that a change of one pod costs one pod, ``deletion_order.py`` decides which pods are
deleted first, ``status.py`` builds the status.
"""
