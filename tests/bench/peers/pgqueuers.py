"""pgqueuer on PostgreSQL: load, one worker process that takes batches of 100, tell the rates."""

import asyncio
import importlib.metadata
import json
import logging
import os
import time
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from tests.bench.peers.clock import Clock

COUNT = int(os.environ["BENCH_COUNT"])
PAYLOAD = b'{"seq": 1, "pad": "' + b"x" * 130 + b'"}'
clock = Clock(os.environ["BENCH_LOG"])


async def noop(_job: Any) -> None:
    clock.tick()


async def main() -> None:
    logging.disable(logging.WARNING)
    connection = await asyncpg.connect(os.environ["BENCH_DSN"])
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    began = time.perf_counter()
    for start in range(0, COUNT, 1000):
        size = min(1000, COUNT - start)
        await queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)
    loaded = time.perf_counter() - began
    worker = PgQueuer.from_asyncpg_connection(connection)
    worker.entrypoint("noop")(noop)
    running = asyncio.ensure_future(worker.run(batch_size=100, dequeue_timeout=timedelta(seconds=5)))
    end = time.monotonic() + 120
    while clock.count() < COUNT and time.monotonic() < end and not running.done():
        await asyncio.sleep(0.05)
    worker.shutdown.set()
    await running
    name = f"pgqueuer {importlib.metadata.version('pgqueuer')}"
    print(json.dumps({"name": name, "submit": COUNT / loaded, "drain": clock.rate()}))


asyncio.run(main())
