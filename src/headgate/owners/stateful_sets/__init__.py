"""StatefulSets: pods with names, in order, each with claims of its own.

``identity.py`` says what a member is called and made of, ``plan.py`` what is to be done next, ``retention.py`` who owns
the claims, ``status.py`` what is told; ``hands.py`` does it and ``controller.py`` hears, wakes and orders the steps.
"""
