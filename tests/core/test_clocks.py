"""No room of the product asks its own machine for the time of day: a process whose clock is wrong changes nothing."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent / "dispatch"
ASKS = re.compile(r"timezone\.now\(|datetime\.now\(|datetime\.utcnow\(|time\.time\(|date\.today\(")
MAY = {
    "services/doctor.py": "it compares this machine's clock with the database's",
    "services/webhook_delivery.py": "a signature carries the sender's time, as its receivers expect",
    "ui/tags.py": "whether a moment is shown with its day",
}


def test_nobody_looks_at_the_clock_of_the_machine() -> None:
    found = set()
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("agent/", "jobs/demo/", "migrations/")) and ASKS.search(path.read_text()):
            found.add(name)
    assert found <= set(MAY), "use dispatch.services.clock, or let the statement say now()"
