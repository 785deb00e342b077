"""Which mark colour a class has: the well-known names keep theirs, others take the free ones in list order."""

from collections.abc import Iterable

KNOWN = {"critical": "1", "interactive": "2", "standard": "3", "batch": "4", "maintenance": "5"}
OTHER = "5"  #: grey, shared by a sixth class and any further one


def palette(slugs: Iterable[str]) -> dict[str, str]:
    """Colour numbers "1".."5" by class."""
    names = list(slugs)
    taken = {KNOWN[name] for name in names if name in KNOWN}
    free = [colour for colour in ("1", "2", "3", "4") if colour not in taken]
    colours: dict[str, str] = {}
    for name in names:
        colours[name] = KNOWN.get(name) or (free.pop(0) if free else OTHER)
    return colours
