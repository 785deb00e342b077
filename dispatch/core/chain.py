"""The chain of the audit: each entry's hash covers the one before, so nobody changes, removes or inserts one unseen.

HMAC-SHA256 under a key that the database does not know: who can write rows still cannot forge the chain.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

FIRST = bytes(32)  # what stands before the first entry
FIELDS = (
    *("id", "at", "actor_kind", "actor_id", "actor_name", "action", "target_kind", "target", "tenant_id"),
    *("before", "after", "reason", "request_id", "refused"),
)


def link(key: bytes, before: bytes, entry: Mapping[str, Any]) -> bytes:
    """The hash of an entry (numbers, texts, truth values and None by name) after the one before it."""
    text = json.dumps([entry[name] for name in FIELDS], ensure_ascii=True, separators=(",", ":"))
    return hmac.digest(key, b"audit" + before + text.encode(), "sha256")


class Fault(NamedTuple):
    """Something that is not as it was chained: `id` names the entry (None: several that nobody can name)."""

    kind: str  # changed, removed, inserted, unlinked
    id: int | None
    text: str


class Verifier:
    """Walks the links in order; `head` is the last one seen."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.seq = 0
        self.hash = FIRST
        self.event_id = 0

    def walk(self, links: Iterable[tuple[int, int, bytes, Mapping[str, Any] | None]]) -> Iterator[Fault]:
        """(place, entry's id, hash, entry or None) of every link in the order of places."""
        for seq, event_id, stored, entry in links:
            missing = seq - self.seq - 1
            if missing:
                yield Fault("unlinked", None, f"{missing} links before place {seq} are gone.")
            if entry is None:
                yield Fault("removed", event_id, f"Entry {event_id} (place {seq}) is gone.")
            elif not missing and link(self.key, self.hash, entry) != stored:
                yield Fault("changed", event_id, f"Entry {event_id} (place {seq}) is not what was chained.")
            self.seq, self.hash, self.event_id = seq, stored, max(self.event_id, event_id)
