"""An agent of the chaos suite: `python -m tests.acceptance.chaos_agent URL NAME BOOK`, its key in EVENFLOW_KEY.

Payloads are {"s": seconds of work, "fails": whether it fails}. Each completion that the server accepted is a line in
BOOK: task, token.
"""

import os
import sys

from dispatch.agent import Client, Job, Runner


def main() -> None:
    url, name, book = sys.argv[1:]
    client = Client(url, os.environ["EVENFLOW_KEY"], name=name, slots=3, retry_for_s=90)
    runner = Runner(client, grace_s=2, wait_s=5)
    handle = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @runner.task("work")
    def work(job: Job) -> None:
        steps = max(1, int(job.payload["s"] / 0.2))
        for step in range(steps):
            if job.stop.wait(job.payload["s"] / steps):
                job.check()
            job.progress(step=step + 1)
        if job.payload["fails"]:
            raise ValueError(f"record {job.task_id} cannot be parsed")
        job.complete(job.task_id)
        os.write(handle, f"{job.task_id} {job.token}\n".encode())

    runner.run()


if __name__ == "__main__":
    main()
