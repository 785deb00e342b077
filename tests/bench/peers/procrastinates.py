"""procrastinate on PostgreSQL: load, one worker process with 20 tasks at once, tell the rates."""

import asyncio
import json
import logging
import os
import time

import procrastinate

from tests.bench.peers.clock import Clock

COUNT = int(os.environ["BENCH_COUNT"])
clock = Clock(os.environ["BENCH_LOG"])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_DSN"], max_size=20))


@app.task(name="noop", queue="bench")
async def noop(seq: int, pad: str) -> None:
    clock.tick()


async def main() -> None:
    logging.disable(logging.WARNING)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = time.perf_counter()
        for start in range(0, COUNT, 1000):
            await noop.batch_defer_async(
                *[{"seq": n, "pad": "x" * 130} for n in range(start, min(COUNT, start + 1000))]
            )
        loaded = time.perf_counter() - began
        await app.run_worker_async(concurrency=20, queues=["bench"], wait=False)
    name = f"procrastinate {procrastinate.__version__}"
    print(json.dumps({"name": name, "submit": COUNT / loaded, "drain": clock.rate()}))


asyncio.run(main())
