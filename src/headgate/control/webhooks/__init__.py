"""The webhook server of a real cluster: answers of ``admission/`` over TLS, with its certificates and configurations.

``target.py`` is where an API server finds it, ``configurations.py`` what is registered there, ``certificates.py`` what
it shows; ``keeper.py`` keeps the cluster's side right, ``shell.py`` listens, and ``service.py`` runs both.
"""
