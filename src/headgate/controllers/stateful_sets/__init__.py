"""StatefulSets: pods with stable names, in order, each with its own claims.

``identity.py`` builds the name, the pod and the claims of an ordinal, ``plan.py`` decides what to do next,
``claim_retention.py`` decides which object owns a claim, ``status.py`` builds the status. ``pod_control.py`` performs
the plan; ``controller.py`` watches, enqueues and puts the steps in order.
"""
