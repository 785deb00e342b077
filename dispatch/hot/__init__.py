"""The agents' verbs as one bare ASGI application, micro-batched (docs/adr/0002)."""
