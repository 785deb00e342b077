"""Thin loops around services: cluster, dispatcher, reconciler, schedules, q2 tasks."""
