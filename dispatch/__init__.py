"""Evenflow's one Django application: rooms and import directions are described in docs/architecture.md."""
