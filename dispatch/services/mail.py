"""One e-mail to addresses that somebody typed in, by the mail server of the settings (EVENFLOW_SMTP…)."""

import smtplib
import time
from urllib.parse import unquote

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email

from dispatch.services.outbound import MAX_URL, Sent

SCHEME = "mailto:"
SUBJECT_LENGTH = 200


def problem(url: str) -> str | None:
    """The sentence for an address that cannot be used, or None: `mailto:` and addresses with commas between them."""
    if not url.startswith(SCHEME) or len(url) > MAX_URL or "?" in url:
        return "must be such as mailto:ops@example.com"
    for address in _addresses(url):
        try:
            validate_email(address)
        except ValidationError:
            return f"holds no e-mail address at {address[:80]!r}"
    return None


def _addresses(url: str) -> list[str]:
    return [unquote(part.strip()) for part in url.removeprefix(SCHEME).split(",")]


def send(url: str, subject: str, text: str) -> Sent:
    """Send; raises nothing."""
    started = time.monotonic()
    error = problem(url) or ("" if settings.EMAIL_HOST else "No mail server is set (EVENFLOW_SMTP_HOST).")
    if not error:
        plain = " ".join(subject.split())[:SUBJECT_LENGTH]
        letter = EmailMessage(f"[{settings.EVENFLOW_INSTALLATION}] {plain}", text, to=_addresses(url))
        try:
            letter.send()
        except (OSError, smtplib.SMTPException) as failure:
            error = f"The mail server did not take it: {failure}"[:500]
    return Sent(None, round((time.monotonic() - started) * 1000), "", error)
