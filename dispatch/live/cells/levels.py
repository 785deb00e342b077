"""Yardsticks: how an age stands to its SLO (quiet below 80 %, close up to 100 %, past beyond)."""

CLOSE = 0.8


def used(age_s: float | None, slo_s: float | None) -> float | None:
    """The part of the SLO that the age has used, or None without age or SLO."""
    return None if age_s is None or not slo_s else age_s / slo_s


def tone(part: float | None) -> str:
    """ "", "watch" or "breach"."""
    if part is None or part < CLOSE:
        return ""
    return "watch" if part <= 1 else "breach"


def health(age_s: float | None, slo_s: float | None, demand: bool = True) -> tuple[str, str, str]:
    """Icon, tone and word of a queue."""
    if age_s is None:
        return ("none", "idle", "none waiting" if demand else "no demand")
    part = used(age_s, slo_s)
    if part is None:
        return ("queued", "", "no SLO")
    return {
        "": ("ok", "ok", "inside"),
        "watch": ("watch", "watch", "close"),
        "breach": ("breach", "breach", "past SLO"),
    }[tone(part)]
