"""manage.py demo: the whole product with departments, load and agents at work (dispatch/jobs/demo/)."""

from dispatch.jobs.demo.launch import DemoLaunch
from dispatch.management.commands import up


class Command(up.Command):
    """`up` with something to see."""

    help = "Run Evenflow with three departments, a mixed load and real agents at work."
    launcher = DemoLaunch
