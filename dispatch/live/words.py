"""How the console writes numbers: durations, counts, shares, clocks. Missing is "–", zero is 0, minus is "−"."""

from collections.abc import Callable
from datetime import UTC, datetime

MISSING = "–"


def age(seconds: float | None) -> str:
    """A duration as `38 s`, `41 m 12 s`, `2 h 05 m` or `3 d 04 h`; negative ones count as none."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole // 60 % 60:02} m"
    return f"{whole // 86_400} d {whole // 3600 % 24:02} h"


def limit(seconds: float | None) -> str:
    """A yardstick without idle parts: `30 s`, `10 m`, `1 h 30 m`."""
    if seconds is None:
        return MISSING
    return age(seconds).replace(" 00 s", "").replace(" 00 m", "").replace(" 00 h", "")


def limit_short(seconds: float | None) -> str:
    """A duration in its largest unit only: `46 m`, `3 h`."""
    return limit(seconds) if seconds is None else " ".join(age(seconds).split()[:2])


def count(value: float | None) -> str:
    """A count as `1,284`."""
    return MISSING if value is None else f"{value:,.0f}"


def decimal(value: float | None, digits: int = 1) -> str:
    """A number with a fixed number of digits, with a true minus."""
    if value is None:
        return MISSING
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def signed(value: float | None, digits: int = 1) -> str:
    """A difference as `+36.6`, `−30.7` or `0.0`."""
    text = decimal(value, digits)
    return f"+{text}" if value is not None and value > 0 and float(text.replace(",", "")) else text


def percent(share: float | None) -> str:
    """A share 0..1 as `47.6`."""
    return MISSING if share is None else decimal(share * 100)


def weight(value: float | None) -> str:
    """A weight as it would be typed: `3`, `0.25`."""
    return MISSING if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


#: endings of names of numbers → how the number is written
UNITS: dict[str, Callable[[float], str]] = {
    "_percent": lambda value: f"{weight(value)} %",
    "_ms": lambda value: f"{weight(value)} ms",
    "_s": age,
}


def title(name: str) -> str:
    """The name of a rule as a heading: `queue_slo` is `Queue SLO`."""
    text = " ".join("SLO" if word == "slo" else word for word in name.split("_"))
    return text[:1].upper() + text[1:]


def measured(name: str, value: float) -> tuple[str, str]:
    """The name of a number without the unit at its end, and the number with it: `window`, `5 m 00 s`."""
    ending = next((one for one in UNITS if name.endswith(one)), "")
    return name.removesuffix(ending).replace("_", " "), UNITS.get(ending, weight)(value)


def plural(number: float, noun: str, many: str = "") -> str:
    """`1 task`, `3 tasks`."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def moment(value: datetime | str | None) -> datetime | None:
    """A time given as an RFC 3339 string or a datetime, in UTC."""
    if value is None or value == "":
        return None
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.astimezone(UTC)


def clock(value: datetime | str | None) -> str:
    """The time of day, `14:32:08`."""
    found = moment(value)
    return MISSING if found is None else f"{found:%H:%M:%S}"


def stamp(value: datetime | str | None) -> str:
    """Date and time, `Mon 30 Nov 2026, 14:32:08 UTC`."""
    found = moment(value)
    return MISSING if found is None else f"{found:%a %d %b %Y, %H:%M:%S} UTC"


def millis(value: datetime | str | None) -> int | None:
    """Milliseconds since 1970, what the browser counts in."""
    found = moment(value)
    return None if found is None else round(found.timestamp() * 1000)
