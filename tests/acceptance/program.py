"""An agent process of the acceptance tests: `python -m tests.acceptance.program URL NAME SLOTS CAPABILITIES BOOK`.

Task types: `work` {"s": seconds} sleeps and completes · `poison` always fails · `hold` blocks in its first attempt and
completes at once in later ones. Each start and end is a line in BOOK.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from dispatch.agent import Client, Job, LeaseLost, Runner
from tests.acceptance.world import write_event


def main() -> None:
    url, name, slots, capabilities, book = sys.argv[1:]
    words = [word for word in capabilities.split(",") if word]
    client = Client(url, os.environ["EVENFLOW_KEY"], name=name, slots=int(slots), capabilities=words, retry_for_s=60)
    runner = Runner(client, grace_s=2, wait_s=5)

    def note(what: str, job: Job) -> None:
        line = {"what": what, "at": time.monotonic(), "task": job.task_id, "token": job.token, "agent": name}
        write_event(Path(book), line)

    def noted(work: Any) -> Any:
        def run(job: Job) -> None:
            note("start", job)
            try:
                job.complete(work(job))
            except LeaseLost:
                note("lost", job)
                raise
            except ValueError:
                note("failed", job)
                raise
            note("end", job)

        return run

    def work(job: Job) -> str:
        if job.stop.wait((job.payload or {}).get("s", 0.05)):
            job.check()
        return f"done by {name}"

    def poison(job: Job) -> str:
        raise ValueError(f"record {job.task_id} cannot be parsed")

    def hold(job: Job) -> str:
        if job.attempt == 1:
            job.stop.wait()
            job.check()
        return f"done by {name} at attempt {job.attempt}"

    for kind, handler in {"work": work, "poison": poison, "hold": hold}.items():
        runner.task(kind)(noted(handler))
    runner.run()


if __name__ == "__main__":
    main()
