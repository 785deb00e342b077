"""Template tags that tie an element to a cell of the live map (dispatch/live/cells).

`{% k p "queued" %}` shows a cell as text; `{% b p "width:bar;hidden:idle" %}` makes attributes of cells;
`{% ico p "icon" %}` draws the icon that a cell names; `{% icon "pause" %}` draws a fixed one. `p` is the prefix of a
row, with `{id}` in a `<template>` that the browser clones. The browser finds the same keys in `data-k` and `data-b` and
keeps them up to date.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dispatch.live import words

register = template.Library()


def _cell(context: Context, key: str) -> Any:
    cells: Mapping[str, Any] = context.get("cells") or {}
    return cells.get(key)


def _text(value: Any) -> str:
    return "" if value is None or value is False else str(value)


@register.simple_tag(takes_context=True)
def k(context: Context, *parts: str, cls: str = "", tag: str = "span") -> SafeString:
    """An element whose text is the cell `"".join(parts)`."""
    key = "".join(parts)
    start = format_html('<{} class="{}"', mark_safe(tag), cls) if cls else format_html("<{}", mark_safe(tag))  # noqa: S308  # tag names come from our templates
    return format_html('{} data-k="{}">{}</{}>', start, key, _text(_cell(context, key)), mark_safe(tag))  # noqa: S308


@register.simple_tag(takes_context=True)
def tk(context: Context, *parts: str, cls: str = "") -> SafeString:
    """A time from a cell (RFC 3339): the last part says how it is written (see `written`)."""
    *names, style = parts
    key = "".join(names)
    found = words.moment(_cell(context, key))
    start = format_html('<time class="{}"', cls) if cls else mark_safe("<time")
    at = format_html(' datetime="{}"', found.isoformat()) if found else ""
    return format_html('{}{} data-t="{}" data-k="{}">{}</time>', start, at, style, key, written(found, style))


@register.simple_tag(takes_context=True)
def b(context: Context, prefix: str, spec: str) -> SafeString:
    """Attributes from cells: `spec` is `attribute:name;attribute:name`, each cell being `prefix + name`."""
    pairs = [pair.split(":") for pair in spec.split(";")]
    found = []
    for attribute, name in pairs:
        value = _cell(context, prefix + name)
        if value is True:
            found.append(format_html("{}", attribute))
        elif value is not None and value is not False:
            found.append(format_html('{}="{}"', attribute, value))
    bound = ";".join(f"{attribute}:{prefix}{name}" for attribute, name in pairs)
    found.append(format_html('data-b="{}"', bound))
    return mark_safe(" ".join(found))  # noqa: S308  # every part is escaped above


@register.simple_tag
def icon(name: str, cls: str = "") -> SafeString:
    """A fixed icon of the sprite; decoration, so hidden from screen readers."""
    return format_html(
        '<svg class="i {}" aria-hidden="true"><use href="{}#{}"></use></svg>', cls, static("icons.svg"), name
    )


@register.simple_tag(takes_context=True)
def ico(context: Context, prefix: str, name: str) -> SafeString:
    """An icon named by a cell."""
    key = prefix + name
    return format_html(
        '<svg class="i" aria-hidden="true"><use href="{}#{}" data-b="icon:{}"></use></svg>',
        static("icons.svg"),
        _text(_cell(context, key)) or "none",
        key,
    )


@register.filter
def initials(user: Any) -> str:
    """Two letters for the avatar, from the name or the e-mail address."""
    source = (user.name or user.email.split("@")[0]).replace(".", " ").replace("-", " ").split()
    letters: str = source[0][:1] + (source[-1][:1] if len(source) > 1 else source[0][1:2])
    return letters.upper()


@register.filter
def at(found: Mapping[str, Any], key: str) -> Any:
    """The value of a key, or a dash."""
    return found.get(key, words.MISSING)


@register.filter
def cell(cells: Mapping[str, Any], key: str) -> Any:
    """A cell whose name has a dot in it."""
    return cells.get(key)


def written(value: datetime | None, style: str) -> str:
    """`clock` 14:32:08, `zoned` with the zone, `stamp` with day and zone, `moment` with the day unless it is today.

    static/js/times.js writes the same in the browser's own zone.
    """
    if value is None:
        return words.MISSING
    if style == "stamp":
        return words.stamp(value)
    if style == "moment" and value.date() != datetime.now(UTC).date():
        return f"{value:%d %b %H:%M}"
    return words.clock(value) + (" UTC" if style == "zoned" else "")


def _time(value: Any, style: str) -> SafeString | str:
    found = words.moment(value)
    if found is None:
        return words.MISSING
    text = written(found, style)
    title = format_html(' title="{}"', words.stamp(found)) if style == "moment" else ""
    return format_html('<time datetime="{}" data-t="{}"{}>{}</time>', found.isoformat(), style, title, text)


for name in ("clock", "zoned", "stamp", "moment"):
    register.filter(name, partial(_time, style=name))
register.filter("words", lambda name: str(name).replace("_", " "))
register.filter("decimal", words.decimal)
register.filter("age", words.age)
register.filter("count", words.count)
