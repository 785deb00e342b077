"""One module per page; every POST goes to a service and comes back as a redirect or an htmx event."""
