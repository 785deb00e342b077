"""What the scheduler remembers between cycles: virtual times, clocks, lane times, learned costs. All integers.

One `Memory` per pool, kept in process by the dispatcher and stored with every cycle:

    memory = Memory.load(nodes, learned, scalars)   # on taking leadership; empty mappings for a new pool
    plan = policy.plan(snapshot, memory)            # changes memory inside an open transaction of its own
    memory.changes()                                # rows to write: what differs from the last commit
    memory.commit()  or  memory.rollback()          # after the database committed, or did not

Rows: `nodes` maps a path to {"vt", "a", "v", "z"} ("root", "c5", "c5/t7", "c5/t7/u9": virtual time, active flag, clock
of the children, clock of the zero-weight children) or to {"t"} ("l5/7/<capset digest>": last dispatch of a starvation
lane); `learned` maps (class, tenant, type) to {"n", "mean", "top", "hint", "hinted"}; `scalars` is one small mapping.
In changes() a row of None means: delete it. Paths of ids with up to 19 digits stay below 64 characters. `deficits`
(worker → exact deficit) is kept in process only: the plan names those to store with their workers (Plan.deficits), and
a worker without an entry has what the snapshot says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any

from dispatch.core.cost import Learned, LearnedKey
from dispatch.core.types import Id

Row = dict[str, int]


class Account:
    """One node of the share tree as remembered: virtual time, whether it has queued work, its children's clocks."""

    __slots__ = ("active", "by_id", "kids", "parent", "path", "stamp", "v", "vt", "z")

    def __init__(self, path: str, parent: "Account | None", vt: int = 0) -> None:
        self.path = path
        self.parent = parent
        self.kids: dict[str, Account] = {}
        self.by_id: dict[Any, Account] = {}
        self.vt = vt
        self.active = False
        self.v = 0
        self.z = 0
        self.stamp = 0

    def row(self) -> Row:
        """The stored form."""
        return {"vt": self.vt, "a": int(self.active), "v": self.v, "z": self.z}

    def state(self) -> tuple[int, bool, int, int]:
        """What the journal keeps to restore it."""
        return (self.vt, self.active, self.v, self.z)


@dataclass(slots=True)
class Scalars:
    """The pool's single numbers: largest measured cost (decaying), times of the last cycle and the last fading."""

    cmax: int = 0
    cycle_at: int = 0
    faded_at: int = 0
    cycle: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that differ from the last commit; None deletes. `scalars` is always whole."""

    nodes: dict[str, Row | None] = field(default_factory=dict)
    learned: dict[LearnedKey, Row | None] = field(default_factory=dict)
    scalars: Row = field(default_factory=dict)


class Memory:
    """The accounts of one pool with a journal, so that a failed transaction can be forgotten cheaply."""

    def __init__(self) -> None:
        self.root = Account("root", None)
        self.lanes: dict[str, int] = {}
        self.learned: dict[LearnedKey, Learned] = {}
        self.types: dict[tuple[Id, Id], int] = {}
        self.deficits: dict[Id, int] = {}
        self.scalars = Scalars()
        self._stamp = 1
        self._deficits = self.deficits
        self._nodes: dict[str, tuple[Account, tuple[int, bool, int, int] | None]] = {}
        self._lanes: dict[str, int | None] = {}
        self._learned: dict[LearnedKey, tuple[int, int, int, int, int] | None] = {}
        self._scalars = Scalars()
        self._digests: dict[frozenset[str], str] = {}

    # Accounts

    def child(self, parent: Account, kind: str, key: Id) -> Account:
        """The account of one child (kind c, t or u), made at its parent's clock when it is new."""
        account = parent.by_id.get(key)
        if account is None:
            path = f"{kind}{key}" if parent is self.root else f"{parent.path}/{kind}{key}"
            account = parent.kids.get(path)
            if account is None:
                account = parent.kids[path] = Account(path, parent, vt=parent.v)
                account.stamp = self._stamp
                known = self._nodes.get(path)
                self._nodes[path] = (account, None if known is None else known[1])
            parent.by_id[key] = account
        return account

    def touch(self, account: Account) -> None:
        """Say that an account is about to change."""
        if account.stamp != self._stamp:
            account.stamp = self._stamp
            self._nodes[account.path] = (account, account.state())

    def forget(self, account: Account) -> None:
        """Drop an account and those below it: what it remembers no longer matters."""
        for kid in list(account.kids.values()):
            self.forget(kid)
        parent = account.parent
        assert parent is not None, "the root is never forgotten"
        self.touch(account)
        del parent.kids[account.path]
        parent.by_id = {k: a for k, a in parent.by_id.items() if a is not account}

    # Starvation lanes

    def lane_path(self, work_class: Id, tenant: Id, caps: frozenset[str]) -> str:
        """The row name of the starvation lane (class, tenant, capability set)."""
        digest = self._digests.get(caps)
        if digest is None:
            digest = blake2s("\n".join(sorted(caps)).encode(), digest_size=8).hexdigest() if caps else "-"
            self._digests[caps] = digest
        return f"l{work_class}/{tenant}/{digest}"

    def served(self, path: str, now: int) -> None:
        """Remember that a starvation lane was dispatched."""
        if path not in self._lanes:
            self._lanes[path] = self.lanes.get(path)
        self.lanes[path] = now

    def forget_lane(self, path: str) -> None:
        """Drop a starvation lane's last dispatch."""
        if path not in self._lanes:
            self._lanes[path] = self.lanes.get(path)
        self.lanes.pop(path, None)

    # Learned costs

    def learning(self, key: LearnedKey, limit: int) -> Learned | None:
        """The learned cost under `key`, about to change; None when the owner already has `limit` types."""
        learned = self.learned.get(key)
        if learned is None:
            owner = key[:2]
            if self.types.get(owner, 0) >= limit:
                return None
            self.types[owner] = self.types.get(owner, 0) + 1
            learned = self.learned[key] = Learned()
            self._learned.setdefault(key, None)
        elif key not in self._learned:
            self._learned[key] = learned.state()
        return learned

    # Transactions

    def changes(self) -> Changes:
        """The rows to write now."""
        nodes: dict[str, Row | None] = {}
        for path, (account, old) in self._nodes.items():
            if account.parent is not None and account.parent.kids.get(path) is not account:
                if old is not None:
                    nodes[path] = None
            elif account.state() != old:
                nodes[path] = account.row()
        for path, last in self._lanes.items():
            now = self.lanes.get(path)
            if now != last:
                nodes[path] = None if now is None else {"t": now}
        learned: dict[LearnedKey, Row | None] = {
            key: _learned_row(self.learned[key])
            for key, old in self._learned.items()
            if self.learned[key].state() != old
        }
        return Changes(nodes, learned, _scalar_row(self.scalars))

    def commit(self) -> None:
        """Keep what happened since the last commit."""
        self._stamp += 1
        self._nodes.clear()
        self._lanes.clear()
        self._learned.clear()
        self._deficits = self.deficits
        self._scalars = _copy(self.scalars)

    def rollback(self) -> None:
        """Forget what happened since the last commit."""
        for path, (account, old) in self._nodes.items():
            parent = account.parent
            if old is None:
                if parent is not None and parent.kids.get(path) is account:
                    del parent.kids[path]
                    parent.by_id = {k: a for k, a in parent.by_id.items() if a is not account}
                continue
            account.vt, account.active, account.v, account.z = old
            if parent is not None:
                parent.kids[path] = account
        for path, last in self._lanes.items():
            if last is None:
                self.lanes.pop(path, None)
            else:
                self.lanes[path] = last
        for key, state in self._learned.items():
            if state is None:
                del self.learned[key]
                self.types[key[:2]] -= 1
            else:
                self.learned[key] = Learned(*state)
        self.deficits = self._deficits
        self.scalars = _copy(self._scalars)
        self.commit()

    # Whole state

    def dump(self) -> Changes:
        """Every row, for a snapshot of the whole memory."""
        nodes: dict[str, Row | None] = {a.path: a.row() for a in _walk(self.root)}
        nodes.update({path: {"t": at} for path, at in self.lanes.items()})
        learned: dict[LearnedKey, Row | None] = {key: _learned_row(x) for key, x in self.learned.items()}
        return Changes(nodes, learned, _scalar_row(self.scalars))

    @classmethod
    def load(
        cls,
        nodes: Mapping[str, Mapping[str, int]],
        learned: Mapping[LearnedKey, Mapping[str, int]] | None = None,
        scalars: Mapping[str, int] | None = None,
    ) -> "Memory":
        """A memory from stored rows; unknown fields are ignored, missing ones are zero."""
        memory = cls()
        for path in sorted(nodes, key=lambda p: p.count("/")):
            row = nodes[path]
            if path.startswith("l"):
                memory.lanes[path] = row.get("t", 0)
            else:
                memory._restore(path, row)
        for key, row in (learned or {}).items():
            memory.learned[key] = Learned(*(row.get(name, 0) for name in _LEARNED))
            memory.types[key[:2]] = memory.types.get(key[:2], 0) + 1
        memory.scalars = Scalars(**{name: (scalars or {}).get(name, 0) for name in _SCALARS})
        memory.commit()
        return memory

    def _restore(self, path: str, row: Mapping[str, int]) -> None:
        account = self.root
        if path != "root":
            parts = path.split("/", 2)
            for depth in range(1, len(parts) + 1):
                here = "/".join(parts[:depth])
                account = account.kids.setdefault(here, Account(here, account))
        account.vt, account.active = row.get("vt", 0), bool(row.get("a", 0))
        account.v, account.z = row.get("v", 0), row.get("z", 0)


_LEARNED = ("n", "mean", "top", "hint", "hinted")
_SCALARS = ("cmax", "cycle_at", "faded_at", "cycle")


def _learned_row(learned: Learned) -> Row:
    return dict(zip(_LEARNED, learned.state(), strict=True))


def _scalar_row(scalars: Scalars) -> Row:
    return {name: getattr(scalars, name) for name in _SCALARS}


def _copy(scalars: Scalars) -> Scalars:
    return Scalars(**_scalar_row(scalars))


def _walk(account: Account) -> Iterable[Account]:
    yield account
    for kid in account.kids.values():
        yield from _walk(kid)
