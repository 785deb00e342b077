"""The agents' SDK: HTTP over the standard library, imports nothing else of ours."""
