"""Chrome trace-event JSON as PyTorch writes it."""
