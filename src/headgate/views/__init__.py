"""What people see of a cluster, as data: queues, what waits in them, gates, nodes, and what is wrong.

``cluster_views.py`` receives watch events and keeps the real engines up to date; ``rows.py`` has the frozen objects
that it yields, by topic. The page and other readers show these objects.
"""
