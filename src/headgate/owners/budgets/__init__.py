"""policy/v1 PodDisruptionBudgets: how many of the pods that a budget means may go, so that evictions can be decided.

``tallies.py`` counts the pods of every budget as they change, ``scales.py`` knows how many there should be,
``status.py`` puts both together, ``traces.py`` finds announcements of disruptions that never came, and ``words.py``
has the events. All of that is pure; ``controller.py`` puts the steps in order. Who is let go is decided by the API
server's ``pods/eviction``, which takes from the budget what it grants; preemption reads budgets in
``scheduling/budgets.py``.
"""
