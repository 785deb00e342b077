"""The ninja application: authentication, errors as problem documents, checked query strings, idempotent POSTs.

Routes are declared with `verb(router, …)`: it names the operation, documents the problem answers, refuses unknown or
doubled query parameters and gives POSTs the Idempotency-Key behaviour. Views return plain values that are packed as
they are; the answer schema documents them, and the contract tests hold real answers against the document.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Router
from ninja.errors import AuthenticationError, HttpError, ValidationErrorContext
from ninja.errors import ValidationError as NinjaValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.security import HttpBearer

from dispatch.api import idempotent, parsing, problems
from dispatch.api.answers import Problem
from dispatch.api.validation import findings
from dispatch.errors import EvenflowError, Invalid, Unauthenticated
from dispatch.services import access, context, rates
from dispatch.services.messages import Caller

PROBLEMS = frozenset({401, 403, 404, 409, 413, 422, 429, 503})

View = Callable[..., Any]


class Bearer(HttpBearer):
    """`Authorization: Bearer ef_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        """The caller of the key; raises Unauthenticated, RateLimited."""
        found = access.authenticate(token)
        rates.spend(found)
        return replace(found, request_id=context.request_id())


class StrictParser(Parser):
    """Bodies through the one parsing module."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The JSON value of the body; raises Invalid or TooLarge."""
        return parsing.json_body(request.body, request.headers.get("Content-Type"))


class _Refused(NinjaValidationError):
    """Carries our own error through ninja's validation path."""

    def __init__(self, error: Invalid) -> None:
        super().__init__([])
        self.error = error


class Api(NinjaAPI):
    """NinjaAPI whose every refusal is a problem document."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """The document, in which refusals have the media type that they are sent with."""
        document = super().get_openapi_schema(**options)
        for operations in document["paths"].values():
            for operation in operations.values():
                for code, found in operation["responses"].items():
                    if int(code) >= 400 and "content" in found:
                        (content,) = found["content"].values()
                        found["content"] = {problems.CONTENT_TYPE: content}
        return document

    def set_default_exception_handlers(self) -> None:
        """All exceptions take one way out."""
        self.add_exception_handler(Exception, _refuse)

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> NinjaValidationError:
        """The findings of all parts of a request, with the contract's paths."""
        faults: list[tuple[str, str]] = []
        for part in error_contexts:
            errors = part.pydantic_validation_error.errors(include_url=False, include_input=False)
            if [error["loc"] for error in errors] == [("body",)] and errors[0]["type"] == "missing":
                raise parsing.empty()
            faults += findings(errors, skip=1)  # the name of the view's argument
        return _Refused(Invalid(*faults))


def _refuse(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    if isinstance(error, _Refused):
        error = error.error
    elif isinstance(error, AuthenticationError):
        error = Unauthenticated("Send Authorization: Bearer with an API key.")
    elif isinstance(error, HttpError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # ninja wraps whatever a parser raises
    assert isinstance(error, Exception)
    return problems.response(problems.problem(error))


def verb(
    router: Router,
    method: str,
    path: str,
    operation_id: str,
    *,
    answer: Any,
    status: int = 200,
    replays: bool = True,
    withheld: str | None = None,
    tags: Sequence[str] = (),
) -> Callable[[View], View]:
    """Declare a route. `replays`: a POST with an Idempotency-Key answers its first answer again.

    Those that carry a fence of their own (token, claim_id) do not need it: ADR 0002. `withheld` names a field of the
    answer that is never kept: a repeat finds null there.
    """

    def declare(view: View) -> View:
        @functools.wraps(view)
        def run(request: HttpRequest, **parts: Any) -> HttpResponse:
            check_query(request, parameters(run))
            if method == "POST" and replays and (key := request.headers.get("Idempotency-Key")) is not None:
                make = functools.partial(_answer, view, request, status, **parts)
                return problems.response(
                    idempotent.once(caller(request), request.path, key, request.body, make, withheld=withheld)
                )
            return problems.response(_answer(view, request, status, **parts))

        router.api_operation(
            [method],
            path,
            operation_id=operation_id,
            response={status: answer, PROBLEMS: Problem},
            by_alias=True,  # "class" is no name for a Python attribute
            tags=list(tags) or None,
        )(run)
        return view

    return declare


def _answer(view: View, request: HttpRequest, status: int, **parts: Any) -> problems.Answer:
    return problems.answer(status, view(request, **parts))


def parameters(route: Any) -> frozenset[str]:
    """Names of the query parameters that a route knows."""
    return frozenset(
        name
        for model in route._ninja_operation.models
        if model.__ninja_param_source__ == "query"
        for name in model.__ninja_flatten_map__
    )


def check_query(request: HttpRequest, known: frozenset[str]) -> None:
    """Refuse query parameters that are unknown or given twice: filters are never ignored."""
    if not request.META.get("QUERY_STRING"):
        return
    faults = []
    for name, values in request.GET.lists():
        if name not in known:
            faults.append((parsing.join("", name) or "query", "is not a parameter of this call"))
        elif len(values) > 1:
            faults.append((name, "is given twice"))
    if faults:
        raise Invalid(*faults)


def caller(request: HttpRequest) -> Caller:
    """Who asks."""
    found: Caller = request.auth  # type: ignore[attr-defined]
    return found


def raised(result: Any) -> Any:
    """One result of a batch-shaped service: the answer, or its error raised."""
    if isinstance(result, EvenflowError):
        raise result
    return result
