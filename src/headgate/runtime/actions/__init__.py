"""What people do to a cluster by command or on the page: lift gates, hold and resume jobs and queues.

``gate_lifts.py`` removes a gate from pods, ``job_labels.py`` labels jobs, ``queue_states.py`` holds queues. The
commands ``headgate gates lift``, ``hold`` and ``resume`` and the page use the same functions.
"""
