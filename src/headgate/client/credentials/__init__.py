"""Who we are: tokens and certificates, where they come from, and when they must be fetched anew."""
