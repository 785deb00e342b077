"""The product's errors: each knows its problem slug, title and status (contract.md, Conventions)."""

from typing import Any


class EvenflowError(Exception):
    """Base: a refusal with a sentence for the caller."""

    slug = "unavailable"
    title = "Unavailable"
    status = 503

    def __init__(self, detail: str = "", *, retry_after_s: float | None = None, **extra: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.retry_after_s = retry_after_s
        self.extra = extra


class Invalid(EvenflowError):
    """Input that cannot be used; `errors` names each field."""

    slug, title, status = "validation", "The request is not valid", 422

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in errors[:3]))
        self.errors = [{"field": field, "message": message} for field, message in errors]


class NotFound(EvenflowError):
    """No such object, or one of another tenant: the answer is the same."""

    slug, title, status = "not-found", "Not found", 404


class Conflict(EvenflowError):
    """The object is not in a state that allows this."""

    slug, title, status = "conflict", "Conflict", 409


class LeaseLost(EvenflowError):
    """The caller does not own the lease (any more)."""

    slug, title, status = "lease-lost", "The lease is lost", 409


class KeyReused(EvenflowError):
    """A task key or Idempotency-Key came with other content than the first time."""

    slug, title, status = "key-reused", "The key was used with other content", 409


class VersionConflict(EvenflowError):
    """Somebody else saved first; `extra["current"]` is the object as it is now."""

    slug, title, status = "version-conflict", "Somebody else saved first", 409


class TooLarge(EvenflowError):
    """A body, payload or result over its limit."""

    slug, title, status = "too-large", "Too large", 413


class RateLimited(EvenflowError):
    """A limit of the tenant on queued tasks, lanes or submits a minute."""

    slug, title, status = "rate-limited", "Rate limited", 429


class Unauthenticated(EvenflowError):
    """No key, or a bad one."""

    slug, title, status = "unauthenticated", "A valid API key is needed", 401


class Forbidden(EvenflowError):
    """The key or person lacks a scope or role."""

    slug, title, status = "forbidden", "Not permitted", 403


class Unavailable(EvenflowError):
    """A needed part is away or full; try again after `retry_after_s`."""
