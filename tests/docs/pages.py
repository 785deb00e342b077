"""The documents of this repository and what is in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]
