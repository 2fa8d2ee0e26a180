"""ReplicaSets: so many pods of one template, no more and no less.

``controller.py`` hears, wakes and orders the steps. ``tally.py`` keeps counts so that a change of one pod costs one
pod, ``plan.py`` says how many to make or end, ``order.py`` which ones go first, ``status.py`` what is reported.
"""
