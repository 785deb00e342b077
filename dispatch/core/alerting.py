"""What is said about a finding, and which alerts keep quiet: silences and inhibition. Pure.

A silence's matcher holds words that all have to fit: `rule`, `subject`, `severity`, `pool`, `class`, `tenant`; a rule
or subject may end in `*`. Inhibition follows Alertmanager: while an alert is open that explains others, those notify
nobody. With no worker at all it is no news that every class starves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SEVERITIES = ("info", "warning", "critical")  #: rising
WORDS = ("rule", "subject", "severity", "pool", "class", "tenant")  #: what a matcher may hold

NO_WORKERS = "no_workers"
NO_CAPABLE_WORKER = "no_capable_worker"
DISPATCHER_LATE = "dispatcher_late"
STARVATION = frozenset(
    {
        "queue_age_rising",
        "near_zero_dispatch",
        "queue_time_growing",
        "capacity_consumed",
        "queue_slo",
        "completion_slo",
        "floor_unmet",
    }
)
INHIBITS: Mapping[str, frozenset[str]] = {
    NO_WORKERS: STARVATION | {NO_CAPABLE_WORKER},
    DISPATCHER_LATE: STARVATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that needs a look: which rule, about what, in one sentence, with the numbers behind it.

    `subject` names the object (`class:background`, `worker:7`); one alert is open per (rule, subject).
    """

    rule: str
    subject: str
    severity: str
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    pool_id: int | None = None
    class_id: int | None = None
    tenant_id: int | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """An open alert as muting sees it: its words by name, and its pool."""

    id: int
    pool_id: int | None
    words: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Mute:
    """Why an alert keeps quiet; both None: it does not."""

    silence_id: int | None = None
    inhibited_by: int | None = None


def worse(severity: str, than: str) -> bool:
    """Whether a severity is above another one."""
    return SEVERITIES.index(severity) > SEVERITIES.index(than)


def matches(matcher: Mapping[str, str], words: Mapping[str, str | None]) -> bool:
    """Whether all words of a matcher fit."""
    return all(_fits(wanted, words.get(name)) for name, wanted in matcher.items())


def _fits(wanted: str, word: str | None) -> bool:
    if word is None:
        return False
    return word.startswith(wanted[:-1]) if wanted.endswith("*") else word == wanted


def mutes(alerts: Sequence[Open], silences: Iterable[tuple[int, Mapping[str, str]]]) -> dict[int, Mute]:
    """Of each open alert the first silence that matches, else the first alert of its pool that explains it."""
    quiet = list(silences)
    sources = [alert for alert in alerts if alert.words["rule"] in INHIBITS]
    return {
        alert.id: Mute(
            next((silence_id for silence_id, matcher in quiet if matches(matcher, alert.words)), None),
            next((source.id for source in sources if _explains(source, alert)), None),
        )
        for alert in alerts
    }


def _explains(source: Open, alert: Open) -> bool:
    covers = INHIBITS[source.words["rule"] or ""]
    return alert.words["rule"] in covers and source.pool_id in {None, alert.pool_id}
