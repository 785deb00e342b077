"""The live OpenAPI document as a judge: every answer of every contract test is held against it."""

import functools
import re
from typing import Any

from jsonschema import Draft202012Validator

from dispatch.api.urls import api


@functools.cache
def document() -> dict[str, Any]:
    """The document as it is served."""
    return dict(api.get_openapi_schema(path_prefix="/api/v1/"))


@functools.cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    found = []
    for path, operations in document()["paths"].items():
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        found += [(method.upper(), pattern, operation) for method, operation in operations.items()]
    return sorted(found, key=lambda one: one[1].pattern.count("[^/]+"))  # a literal address before one with parts


@functools.cache
def _validator(reference: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": reference, "components": document()["components"]})


def check(method: str, path: str, status: int, data: Any) -> None:
    """Fail when the document does not foresee this answer (addresses and methods that do not exist aside)."""
    address = path.partition("?")[0]
    operation = next((op for verb, pattern, op in _operations() if verb == method and pattern.fullmatch(address)), None)
    if operation is None or not address.isascii():
        assert status in {404, 405}, (method, path, status)
        return
    assert str(status) in {str(code) for code in operation["responses"]}, (method, path, status, data)
    answer = {str(code): found for code, found in operation["responses"].items()}[str(status)]
    if "content" not in answer:
        assert data is None
        return
    (content,) = answer["content"].values()
    schema = content["schema"]
    faults = [
        [error.message for error in _validator(part["$ref"]).iter_errors(data)]
        for part in schema.get("anyOf", [schema])
    ]
    assert not all(faults), (method, path, status, faults, data)
