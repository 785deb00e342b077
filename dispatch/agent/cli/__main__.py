"""`python -m dispatch.agent.cli …` is `evenflow …`."""

from dispatch.agent.cli import run

run()
