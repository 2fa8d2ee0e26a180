"""The client's I/O: transports, informers, the writer, the event recorder and leader election."""
