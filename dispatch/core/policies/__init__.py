"""Scheduling policies: one file and one registry line each."""
