"""Django application config."""

from django.apps import AppConfig


class DispatchConfig(AppConfig):
    """Registers the models and the system checks of Evenflow."""

    name = "dispatch"
    verbose_name = "Evenflow"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """The checks register themselves."""
        from dispatch import checks  # noqa: F401  # needs the models
