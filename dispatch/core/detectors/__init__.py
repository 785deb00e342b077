"""Starvation and health detectors: one file and one registry line each."""
