"""The terminal itself, the connection to the API server, and the loop that runs the screen."""
