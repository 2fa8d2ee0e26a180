"""Objects as they are stored: reading, writing, responses, ResourceQuota usage, event expiry."""
