"""In-place edits of weights."""

from django.http import Http404, HttpRequest

from dispatch import errors
from dispatch.live import words
from dispatch.services import policy
from dispatch.ui import pages

UNSAID = "edited in place"  #: the reason in the audit when the operator gives none


@pages.command
def weight(request: HttpRequest, kind: str, slug: str) -> pages.Told:
    """Save one weight; the version is the one the operator saw when typing."""
    if kind not in ("class", "tenant"):
        raise Http404
    typed = request.POST.get("weight", "").strip().replace(",", ".")
    try:
        value, version = float(typed), int(request.POST.get("version", ""))
    except ValueError:
        raise errors.Invalid(("weight", "Type a number: 0, or 0.001 to 1000.")) from None
    reason = request.POST.get("reason", "").strip() or UNSAID
    saved = policy.patch(pages.caller(request), kind, slug, version, {"weight": value}, reason)
    now = words.weight(saved["weight"])
    return f"Weight of {kind} {slug} is now {now}", {"saved": {"weight": now, "version": saved["version"]}}
