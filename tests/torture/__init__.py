"""Long runs against the store and the server: ``make torture``. The suite runs the same checks for a few seconds."""
