"""What the comparison suites share: two servers, one way to send requests, one way to compare responses."""
