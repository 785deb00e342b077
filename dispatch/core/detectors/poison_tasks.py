"""Tasks that are dead because the agents that had them went silent, as of a task that kills its worker."""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold
from dispatch.core.detectors.view import View

NAME = "poison_tasks"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each tenant's type of which tasks died with a lost agent."""
    found = []
    for deaths in view.deaths:
        limits = dials.of(deaths.subject)
        if limits is None or deaths.lost < limits["deaths"]:
            continue
        tasks = "1 task" if deaths.lost == 1 else f"{deaths.lost} tasks"
        found.append(
            Finding(
                rule=NAME,
                subject=deaths.subject,
                severity="warning",
                text=f"{tasks} of {deaths.kind} of {deaths.tenant} died, their agents were lost; they may kill them.",
                evidence={"dead": deaths.lost, "window_s": limits["window_s"]},
                pool_id=view.pool_id,
                tenant_id=deaths.tenant_id,
            )
        )
    return found


RULE = Rule(
    name=NAME,
    scope="type",
    text="Tasks of one type died because their agents were lost: they may kill them.",
    thresholds=(
        Threshold("window_s", 600, 60, 600, WINDOW.text),
        Threshold("deaths", 1, 1, 1_000_000, "deaths with a lost agent within the window from which it fires"),
    ),
    scan=scan,
    replays=False,
)
