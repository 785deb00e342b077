"""Live numbers for the console: LISTEN, snapshots, deltas, consumers."""
