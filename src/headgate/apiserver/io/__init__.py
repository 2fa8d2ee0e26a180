"""The server's I/O: listening, connections, TLS files, the thread for long requests, webhook calls."""
