"""Pure decisions: stdlib only, no Django, no clock, no I/O, no randomness. A snapshot in, a plan out."""
