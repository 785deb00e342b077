"""Mails to people. Without a mail server (EVENFLOW_SMTP_HOST) nothing is sent: links are shown to whoever made them."""

import logging
import smtplib

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string

logger = logging.getLogger(__name__)


def configured() -> bool:
    """Whether there is a mail server."""
    return not settings.EMAIL_BACKEND.endswith("console.EmailBackend")


def send(to: str, subject: str, template: str, **context: object) -> bool:
    """Send one plain text; False when there is no mail server or it did not take it."""
    if not configured():
        return False
    text = render_to_string(template, context | {"installation": settings.EVENFLOW_INSTALLATION})
    try:
        send_mail(subject, text, None, [to])
    except (smtplib.SMTPException, OSError) as error:
        logger.warning("a mail could not be sent: %s", error, extra={"action": "mail_failed"})
        return False
    return True
