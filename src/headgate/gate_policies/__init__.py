"""GatePolicies: which users may add and lift a scheduling gate, how many pods may wait behind it, and for how long.

``decision.py`` decides about one write, ``controller.py`` about ages, Leases and the status of the policies.
"""
