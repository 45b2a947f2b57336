"""Save traces as files that open fast, and open them."""
