"""People and things of the page tests; the browser and the operator of those that run a module's own `product`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser

from dispatch.models import Membership, Tenant, User
from dispatch.services import access, policy, submit
from dispatch.services.messages import Caller, TaskSpec
from tests.acceptance.harness import Product
from tests.ui.browsing import Visit, launch_arguments, sign_in

PASSWORD = "a long password"


@pytest.fixture
def system() -> Caller:
    """A caller that may do everything."""
    return access.system("test")


@pytest.fixture
def pool(db: None, system: Caller) -> None:
    """Class interactive, tenants sales and legal."""
    policy.create(system, "class", "interactive", {"slo_queue_s": 60})
    policy.create(system, "tenant", "sales", {})
    policy.create(system, "tenant", "legal", {})


@pytest.fixture
def task(pool: None, system: Caller) -> Callable[..., int]:
    """Submits one task; its id."""

    def make(**fields: Any) -> int:
        spec = {"tenant": "sales", "work_class": "interactive", "payload": {"n": 1}, "type": "index"} | fields
        return submit.submit(system, [TaskSpec(**spec)])[0].id

    return make


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Makes a person with a global role, or a role in a tenant."""

    def make(role: str = "", tenant: str = "", inside: str = "viewer", **fields: Any) -> User:
        email = f"{role or inside or 'nobody'}-{tenant or 'x'}@example.net"
        user = User.objects.create_user(email, PASSWORD, role=role, **fields)
        if tenant:
            Membership.objects.create(user=user, tenant=Tenant.objects.get(slug=tenant), role=inside)
        return user

    return make


@pytest.fixture
def browse(person: Callable[..., User]) -> Callable[..., Client]:
    """A signed-in client of a new person."""

    def make(role: str = "operator", **fields: Any) -> Client:
        client = Client()
        client.force_login(person(role, **fields), "django.contrib.auth.backends.ModelBackend")
        return client

    return make


@pytest.fixture(autouse=True)
def fresh() -> None:
    """No numbers of another test."""
    from dispatch.live import snapshots

    snapshots._entries.clear()


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return launch_arguments()


@pytest.fixture(scope="module")
def signed_in(product: Product, browser: Browser) -> Any:
    """The cookies of the operator, signed in once through the door."""
    visit = Visit(browser, product.url)
    operator = product.operator
    sign_in(visit.page, product.url, str(operator["email"]), str(operator["password"]))
    state = visit.context.storage_state()
    visit.close()
    return state


@pytest.fixture
def visit(product: Product, browser: Browser, signed_in: Any) -> Iterator[Visit]:
    found = Visit(browser, product.url, signed_in)
    yield found
    found.close()
