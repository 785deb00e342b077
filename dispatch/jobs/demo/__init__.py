"""The demo: departments, a steady mixed load, real agents."""
