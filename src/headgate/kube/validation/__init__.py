"""What the API server refuses: one module per area, every function a list of field errors in the server's order."""
