"""The I/O of the page: watches of the cluster, questions about rights, and the HTTP handler."""
