"""The agents' SDK: HTTP over the standard library, imports nothing else of ours.

`Client` submits and claims, `Job` is a leased task, `Runner` is a whole agent; docs/guides/agent-python.md shows them.
"""

from dispatch.agent.client import Client
from dispatch.agent.errors import AgentError, ApiError, Interrupted, LeaseLost, Stop, TaskError, Unreachable
from dispatch.agent.job import Job
from dispatch.agent.runner import Runner
from dispatch.agent.submitting import Submitted

__all__ = [
    "AgentError",
    "ApiError",
    "Client",
    "Interrupted",
    "Job",
    "LeaseLost",
    "Runner",
    "Stop",
    "Submitted",
    "TaskError",
    "Unreachable",
]
