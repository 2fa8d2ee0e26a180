"""DaemonSets: one pod on every node that suits, bound there by the scheduler.

``placement.py`` says which nodes suit and what a pod for a node looks like, ``spots.py`` what a node needs;
``board.py`` remembers it for all nodes of one set and counts as they change, ``rolling.py`` says who is replaced next;
``controller.py`` hears, wakes and orders the steps.
"""
