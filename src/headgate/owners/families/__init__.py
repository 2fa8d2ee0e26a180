"""What every owner of other objects shares: who belongs to whom, claiming, making and ending them, facts about pods.

``family.py`` remembers; ``claiming.py`` and ``making.py`` are steps of work that write; ``pods.py`` says what a pod is.
The kinds themselves are rooms beside this one (``owners/replica_sets/``, ``owners/jobs/`` and so on).
"""
