"""The JSON API: parse, authorise, call a service, map errors. No ORM, no SQL."""
