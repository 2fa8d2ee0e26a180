"""Who looks after objects in the embedded cluster: engines that decide, and never act.

A controller (``contract.py``) hears what changes, says which keys need work, and works on one key in steps: it yields
the requests it wants made (``effects.py``) and is sent their answers. ``control/`` makes the requests. Here are those
that every cluster needs to feel alive: the garbage collector (``collector.py`` on ``graph.py``), the end of namespaces
(``namespaces.py``), of stray pods (``stray_pods.py``), and what every namespace has from its first moment
(``service_accounts.py``, ``root_certificates.py``).
"""
