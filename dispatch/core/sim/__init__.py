"""A discrete-event simulator that runs any registered policy on a virtual clock, with the dispatcher's own core.

    report = simulate(load(document)[0], registry["fair"])

A scenario is a JSON document (scenario.py): a policy, workers, a workload, faults and expectations. Time is virtual:
an hour takes a second or less. Same scenario, same report: the random numbers are seeded and our own.
"""

from dispatch.core.sim.expect import Check, check
from dispatch.core.sim.report import Report
from dispatch.core.sim.scenario import Scenario, load, policy_of
from dispatch.core.sim.world import simulate

__all__ = ["Check", "Report", "Scenario", "check", "load", "policy_of", "simulate"]
