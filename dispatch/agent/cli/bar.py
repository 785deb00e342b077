"""A progress bar on stderr, only where a person looks: nothing is written unless stderr is a terminal."""

import sys
import time
from types import TracebackType
from typing import Self

from dispatch.agent.cli.output import age, clean

WIDTH = 30
EVERY_S = 0.1  # between two drawings


class Bar:
    """`with Bar("submitting", total) as bar: bar.show(done)`; `total` None when it is not known."""

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self._seen = sys.stderr.isatty()
        self._began = time.monotonic()
        self._drawn = 0.0

    def show(self, done: int, note: str = "", *, now: bool = False) -> None:
        """Draw `done` of the total; too frequent calls are skipped unless `now`."""
        at = time.monotonic()
        if not self._seen or (at - self._drawn < EVERY_S and not now):
            return
        self._drawn = at
        print(f"\r\x1b[K{self.text(done, note, at - self._began)}", end="", file=sys.stderr, flush=True)

    def text(self, done: int, note: str, spent_s: float) -> str:
        """One drawing without the cursor moves."""
        rate = f"{done / spent_s:.0f}/s" if spent_s > 0 and done else ""
        parts = [self.label]
        if self.total:
            filled = min(WIDTH, WIDTH * done // self.total)
            parts += [f"[{'█' * filled}{'·' * (WIDTH - filled)}]", f"{done}/{self.total}"]
            if 0 < done < self.total:
                parts.append(f"{age(spent_s / done * (self.total - done))} left")
        else:
            parts += [str(done), age(spent_s)]
        return "  ".join(part for part in (*parts, rate, clean(note)) if part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seen and self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
