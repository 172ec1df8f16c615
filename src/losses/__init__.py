"""Loss functions over validated batches, and the diagnostics of their runs; empty for now."""
