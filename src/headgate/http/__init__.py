"""The HTTP/1.1 wire protocol, client side and server side: heads, chunks, bodies, connections.

Nothing here knows Kubernetes. ``client/`` and ``apiserver/`` use this package.
"""
