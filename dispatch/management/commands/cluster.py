"""manage.py cluster: dispatcher, reconciler and slow jobs (dispatch/jobs/cluster.py). Any number may run."""

import sys
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections

from dispatch.jobs import cluster, prepare


class Command(BaseCommand):
    """Runs until Ctrl-C or SIGTERM."""

    help = "Run the cluster: dispatcher, reconciler and django-q2 workers."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        """Check the database, then run."""
        try:
            prepare.check_database()
        except prepare.Refused as error:
            sys.exit(str(error))
        connections.close_all()  # nothing may be open when processes are forked
        cluster.run()
