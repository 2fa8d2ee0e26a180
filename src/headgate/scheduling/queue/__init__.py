"""The scheduling queue: active pods, back-off, and pods that wait for an event."""
