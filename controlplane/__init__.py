"""The Django project: the composition root that wires the rooms of `dispatch` together."""
