"""Pulses of our own processes, shown on the System page and read by reclaim (was anybody there to hear heartbeats?).

Kinds in use: web, dispatcher, reconciler, sentinel. Beat about once a second; a gap of 3 s counts as an absence.
"""

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from dispatch.store import db


def register_process(kind: str, info: Mapping[str, Any] | None = None) -> int:
    """Announce this process; the id of its row."""
    params = {"kind": kind, "host": socket.gethostname(), "pid": os.getpid(), "info": json.dumps(dict(info or {}))}
    return int(db.tuples("register_process", params)[0][0])


def beat(process_id: int, info: Mapping[str, Any] | None = None) -> bool:
    """One pulse; False when the row is gone and the process has to register again."""
    text = None if info is None else json.dumps(dict(info))
    return bool(db.tuples("beat_process", {"process_id": process_id, "info": text}))


def end(process_id: int) -> None:
    """An orderly goodbye of a process."""
    db.execute("end_process", {"process_id": process_id})
