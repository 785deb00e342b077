"""`manage.py demo`: `up` with departments, load and a fleet of agents, some of them with the troubles of real ones."""

import json
import os
import sys
from pathlib import Path

from django.conf import settings
from django.db import connections

from dispatch.jobs.demo import seed
from dispatch.jobs.launch import Launch
from dispatch.jobs.supervisor import Part

# name, capabilities, slots, troubles
FLEET: tuple[tuple[str, str, int, tuple[str, ...]], ...] = (
    ("indexer-1", "text", 2, ()),
    ("indexer-2", "text", 2, ()),
    ("hasher-1", "files", 2, ()),
    ("hasher-2", "files", 2, ()),
    ("operator-1", "shell", 2, ()),
    ("allround-1", "text,files", 2, ()),
    ("allround-2", "text,files,shell", 2, ()),
    ("allround-3", "text,files,shell", 2, ()),
    ("crashing-1", "text,files", 1, ("--crash-every", "3")),
    ("hanging-1", "text,files,shell", 1, ("--hang-every", "3")),
)
SECRETS = {"SECRET_KEY", "EVENFLOW_PEPPER", "DATABASE_URL"}  # not for agents
SLOTS = sum(slots for _, _, slots, _ in FLEET)


class DemoLaunch(Launch):
    """One run of the demo."""

    def ready(self) -> None:
        """Seed through the services, then start the departments and the fleet."""
        keys = seed.seed()
        connections.close_all()
        base = Path(settings.BASE_DIR)
        at = ("--url", self.url, "--root", str(base))
        env = {name: value for name, value in os.environ.items() if name not in SECRETS}

        def program(name: str, module: str, secret: dict[str, str], *options: str) -> None:
            command = [sys.executable, "-m", f"dispatch.jobs.demo.{module}", *at, *options]
            self.supervisor.add(Part(name=name, command=command, env=env | secret, cwd=base, watch=False, wave=1))

        for name, capabilities, slots, troubles in FLEET:
            options = ("--name", name, "--capabilities", capabilities, "--slots", str(slots), *troubles)
            program(name, "agent", {"EVENFLOW_KEY": keys.agents}, *options)
        departments = {"EVENFLOW_KEYS": json.dumps(dict(keys.departments))}
        program("departments", "load", departments, "--slots", str(SLOTS))
        self.supervisor.tick()
