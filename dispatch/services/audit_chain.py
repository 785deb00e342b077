"""The chain over the audit: one writer links committed entries in id order; anybody can verify it.

Commands only append their entry, so no transaction waits for the chain. The reconciler links what has been committed a
moment ago, as long as nothing that is still open could commit an earlier entry (`unlinked_audit`). What appears among
linked entries later was not written by a command; verification says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from dispatch.core import chain
from dispatch.store import db

BATCH = 1000
SETTLE_S = 1.0  # an entry is linked this long after its transaction began, at the earliest
PATIENCE_S = 600.0  # one that is not linked after this long is a fault
MOST_STRAYS = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found; `head` is the end of the chain as `place:hash`."""

    links: int
    head: str
    faults: list[chain.Fault]


def advance() -> int:
    """Link what is ready, at most BATCH entries; how many."""
    with db.atomic():
        last = db.one("last_link") or {"seq": 0, "hash": chain.FIRST, "event_id": 0}
        params = {"after": last["event_id"], "settle_s": SETTLE_S, "limit": BATCH}
        entries = db.rows("unlinked_audit", params)
        before, hashes = bytes(last["hash"]), []
        for entry in entries:
            before = chain.link(_key(), before, entry)
            hashes.append(before.hex())
        if entries:
            seqs = list(range(last["seq"] + 1, last["seq"] + 1 + len(entries)))
            db.execute("append_links", {"seqs": seqs, "ids": [entry["id"] for entry in entries], "hashes": hashes})
    return len(entries)


def verify(expect: str = "") -> Verdict:
    """Walk the whole chain. `expect` is a head that was noted earlier: it must still be in its place."""
    verifier = chain.Verifier(_key())
    wanted = dict([expect.split(":", 1)]) if ":" in expect else {}
    faults = list(verifier.walk(_links(wanted)))
    faults += [chain.Fault("unlinked", None, f"Place {place} is not what was noted.") for place in wanted]
    params = {"chained": verifier.event_id, "patience_s": PATIENCE_S, "limit": MOST_STRAYS}
    for row in db.rows("stray_audit", params):
        if row["inserted"]:
            faults.append(chain.Fault("inserted", row["id"], f"Entry {row['id']} was inserted beside the chain."))
        else:
            faults.append(chain.Fault("unlinked", row["id"], f"Entry {row['id']} was never linked: is a cluster up?"))
    return Verdict(verifier.seq, f"{verifier.seq}:{verifier.hash.hex()}", faults)


def _links(wanted: dict[str, str]) -> Iterator[tuple[int, int, bytes, dict[str, Any] | None]]:
    """All links; a noted head that is met as it was is taken out of `wanted`."""
    after = 0
    while rows := db.rows("chained_audit", {"after": after, "limit": BATCH}):
        for row in rows:
            stored = bytes(row["hash"])
            if wanted.get(str(row["seq"])) == stored.hex():
                del wanted[str(row["seq"])]
            yield row["seq"], row["event_id"], stored, None if row["id"] is None else row
        after = rows[-1]["seq"]


def _key() -> bytes:
    return str(settings.EVENFLOW_PEPPER).encode()
