"""People: users with what they prefer, their roles, memberships in tenants, and invitations."""

from typing import ClassVar

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from dispatch.models.policy import Tenant


class UserManager(BaseUserManager["User"]):
    """Creates users by e-mail address."""

    use_in_migrations = True

    def create_user(self, email: str, password: str | None = None, **fields: object) -> "User":
        """Make and save one user; a None password is unusable."""
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: object) -> "User":
        """An operator who may also use the break-glass admin."""
        return self.create_user(email, password, role="operator", is_staff=True, is_superuser=True, **fields)


class User(AbstractUser):
    """A person. `role` is the global one (operator, auditor or none); tenants grant roles by Membership."""

    username = None  # type: ignore[assignment]  # people sign in by e-mail
    email = models.EmailField("e-mail address", unique=True)
    name = models.CharField(max_length=120, default="", blank=True)
    role = models.CharField(
        max_length=16, default="", blank=True, choices=[("operator", "operator"), ("auditor", "auditor"), ("", "none")]
    )
    initial_password = models.BooleanField(default=False, help_text="shows the banner that asks to change it")
    timezone = models.CharField(max_length=63, default="", db_default="", blank=True)  # IANA name; empty: UTC
    shortcuts = models.BooleanField(default=True, db_default=True)  # single-letter keys of the console
    alert_mail = ArrayField(models.CharField(max_length=8), default=list, db_default=[], blank=True)  # severities

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = UserManager()  # type: ignore[misc,assignment]  # replaces the manager that needs a username

    class Meta:
        db_table = "user"


class Membership(models.Model):
    """A role of one person in one tenant."""

    user = models.ForeignKey(User, models.CASCADE)
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    role = models.CharField(max_length=16, choices=[("admin", "admin"), ("member", "member"), ("viewer", "viewer")])
    view_payloads = models.BooleanField(default=False)

    class Meta:
        db_table = "membership"
        constraints = [models.UniqueConstraint(fields=["user", "tenant"], name="membership_once")]


class Invitation(models.Model):
    """An offer of a role to one e-mail address: a global role, or one in a tenant. Only the token's HMAC is stored."""

    digest = models.BinaryField(unique=True)
    email = models.EmailField()
    role = models.CharField(max_length=16)  # "operator" or "auditor"; with a tenant "admin", "member" or "viewer"
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True)
    view_payloads = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField(default="")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "invitation"
