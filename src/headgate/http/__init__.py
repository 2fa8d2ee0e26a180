"""The HTTP/1.1 server and the HTTP/1.1 client, with TLS and certificates. The package is independent of Kubernetes.

``server.py`` is the server of the API server, of the webhooks, and of health and metrics; each of them has a handler
(``request_handler.py``). ``client_connection.py`` sends all requests of Headgate. In this package, the *head* of a
message is its first line and its header fields.
"""
