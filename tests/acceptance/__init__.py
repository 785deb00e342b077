"""The real product, as real processes."""
