"""The console under its budgets: first paint, sizes, a hundred open dashboards (aims: 500 ms; 40 kB of own scripts and
25 kB of styles as sent, 60 kB of HTML; one snapshot a topic and second, 40 % of a core).
"""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.acceptance.harness import Product, running
from tests.bench.report import Table
from tests.ui.browsing import Visit, launch_arguments, sign_in

PAGES = ("/", "/queues", "/queues/background", "/workers", "/fairness", "/capabilities", "/audit", "/system")
ROUNDS, DASHBOARDS, WATCHED_S = 5, 100, 10
SOCKETS = """async ([count, seconds]) => {
  const topics = ["overview", "queues", "workers", "queue:background"];
  const got = Array(count).fill(0);
  let bytes = 0;
  const sockets = got.map((_, place) => {
    const socket = new WebSocket(`ws://${location.host}/ws/live?topic=${topics[place % 4]}`);
    socket.onmessage = (event) => { got[place] += 1; bytes += event.data.length; };
    return socket;
  });
  while (got.some((count) => count === 0)) await new Promise((done) => setTimeout(done, 100));  // one by one they open
  const [before, sent] = [[...got], bytes];
  await new Promise((done) => setTimeout(done, seconds * 1000));
  const counts = got.map((all, place) => (all - before[place]) / seconds);
  for (const socket of sockets) socket.close();
  return { least: Math.min(...counts), most: Math.max(...counts), kb: (bytes - sent) / seconds / 1000 };
}"""


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return launch_arguments()


@pytest.fixture(scope="module")
def demo() -> Iterator[Product]:
    with running(command=("demo",)) as found:
        time.sleep(15)
        yield found


@pytest.fixture
def visit(demo: Product, browser: Browser) -> Iterator[Visit]:
    found = Visit(browser, demo.url)
    sign_in(found.page, demo.url, str(demo.operator["email"]), str(demo.operator["password"]))
    yield found
    found.context.close()


def bench_first_paint(visit: Visit) -> None:
    """Time to the first byte and to the first contentful paint of each page, warm."""
    table = Table("Pages: first byte, first contentful paint")
    sizes: dict[str, int] = {}
    visit.page.on("requestfinished", lambda one: _keep(sizes, one))
    for path in PAGES:
        for _ in range(ROUNDS):
            visit.page.goto(path)
            visit.page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
            timing = visit.page.evaluate(
                "[performance.getEntriesByType('navigation')[0].responseStart,"
                " performance.getEntriesByName('first-contentful-paint')[0].startTime]"
            )
            table.add(f"{path} first byte", timing[0])
            table.add(f"{path} first paint", timing[1])
    table.show()
    html = max(size for url, size in sizes.items() if "/static/" not in url and "." not in url.rsplit("/", 1)[-1])
    scripts = sum(size for url, size in sizes.items() if "/static/js/" in url)
    styles = sum(size for url, size in sizes.items() if "/static/css/" in url)
    print(f"own scripts {scripts / 1000:.1f} kB, styles {styles / 1000:.1f} kB, largest page {html / 1000:.1f} kB")


def bench_a_hundred_dashboards(demo: Product, visit: Visit) -> None:
    """Messages a second and dashboard, and how much of a core the web process uses for all of them."""
    visit.page.goto("/")
    pid = demo.pid("web")
    idle = _used(pid, 5)
    started, before = time.monotonic(), _cpu(pid)
    found = visit.page.evaluate(SOCKETS, [DASHBOARDS, WATCHED_S])
    busy = (_cpu(pid) - before) / (time.monotonic() - started)
    print(f"\n{DASHBOARDS} dashboards: {found['least']:.2f} to {found['most']:.2f} messages a second each,")
    print(f"{found['kb']:.0f} kB/s in all, web process {busy * 100:.0f} % of a core ({idle * 100:.0f} % with one)")


def _keep(sizes: dict[str, int], request: Any) -> None:
    """The largest size seen; what came from the browser's cache has none."""
    sizes[request.url] = max(sizes.get(request.url, 0), request.sizes()["responseBodySize"])


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _used(pid: int, seconds: float) -> float:
    before = _cpu(pid)
    time.sleep(seconds)
    return (_cpu(pid) - before) / seconds
