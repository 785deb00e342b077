"""Dead letters of one task type come faster than they did in the hour before."""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold
from dispatch.core.detectors.view import View

NAME = "dead_letters_rising"
BEFORE_S = 3600  # what came within this time before the window is what was usual


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each tenant's type that dies more often than before."""
    found = []
    for deaths in view.deaths:
        limits = dials.of(deaths.subject)
        if limits is None or not deaths.lately or deaths.lately < limits["deaths"]:
            continue
        usual = deaths.before * limits["window_s"]  # times BEFORE_S
        if deaths.lately * BEFORE_S * 100 < usual * limits["growth_percent"]:
            continue
        found.append(
            Finding(
                rule=NAME,
                subject=deaths.subject,
                severity="warning",
                text=f"{deaths.lately} tasks of {deaths.kind} of {deaths.tenant} died within {limits['window_s']} s.",
                evidence={
                    "dead": deaths.lately,
                    "dead_in_the_hour_before": deaths.before,
                    "window_s": limits["window_s"],
                },
                pool_id=view.pool_id,
                tenant_id=deaths.tenant_id,
            )
        )
    return found


RULE = Rule(
    name=NAME,
    scope="type",
    text="Tasks of one type die more often than in the hour before.",
    thresholds=(
        Threshold("window_s", 300, 60, 600, WINDOW.text),
        Threshold("deaths", 5, 1, 1_000_000, "deaths within the window from which it fires", eases=True),
        Threshold("growth_percent", 300, 100, 100_000, "against what was usual in the hour before", eases=True),
    ),
    scan=scan,
    replays=False,
)
