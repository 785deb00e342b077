"""The demo's departments: one process that submits their tasks over HTTP, each with its department's own key.

EVENFLOW_KEYS='{"sales": "ef_…", …}' python -m dispatch.jobs.demo.load --url http://127.0.0.1:8000 --slots 18 --root .
"""

import argparse
import json
import logging
import os
import random
import time
from pathlib import Path

from dispatch.agent import AgentError, Client
from dispatch.jobs.demo import mix

log = logging.getLogger("evenflow.demo.load")


def main() -> None:
    """Submit for ever; ends by SIGTERM."""
    parser = argparse.ArgumentParser(description="The load of the demo.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--slots", type=int, required=True, help="slots of the fleet, which the load is made for")
    parser.add_argument("--root", type=Path, required=True, help="the folder that the agents may read")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)-7s departments: %(message)s", datefmt="%H:%M:%S"
    )
    clients = {tenant: Client(options.url, key) for tenant, key in json.loads(os.environ["EVENFLOW_KEYS"]).items()}
    due = time.monotonic()
    for submission in mix.stream(options.root, options.slots, random.Random()):  # noqa: S311  # guards no secret
        due = max(due, time.monotonic() - 5) + submission.after_s  # after an outage only a little is made up for
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            clients[submission.tenant].submit_many([submission.task])
        except AgentError as error:
            log.warning("a task of %s was not taken: %s", submission.tenant, error)


if __name__ == "__main__":
    main()
