"""HTTP/1.1, client side and server side: heads, chunks, bodies, connections, TLS, and the server itself.

Nothing here knows Kubernetes. ``server.py`` serves the API server, the webhooks, and health and metrics; each of them
has a handler (``request_handler.py``). ``client_connection.py`` carries every request that Headgate sends.
"""
