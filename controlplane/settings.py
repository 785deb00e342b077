"""Django settings, all from typed environment variables (docs/reference/settings.md lists them).

What an operator changes while the product runs lives in the database, not here.
"""

from pathlib import Path
from typing import Any

from django.utils.log import CallbackFilter

from controlplane import env
from controlplane.logs import JsonLine, OneLine, Outages
from dispatch.conf import Limits
from dispatch.store import embedded

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("EVENFLOW_DATA", str(BASE_DIR / ".data"))).absolute()
DATABASE_URL = env.text("DATABASE_URL")
DEBUG = False
SECRET_KEY = env.secret("SECRET_KEY", DATA_DIR, needed=bool(DATABASE_URL))
EVENFLOW_PEPPER = env.secret("EVENFLOW_PEPPER", DATA_DIR, needed=bool(DATABASE_URL))
EVENFLOW_HOT = env.flag("EVENFLOW_HOT", True)
EVENFLOW_SERVER = env.choice("EVENFLOW_SERVER", "uvicorn", "daphne")
EVENFLOW_PULSE = True  # web processes register themselves and beat; tests turn it off
EVENFLOW_LIMITS = Limits(
    body_bytes=env.number("EVENFLOW_MAX_BODY_BYTES", 16 * 1024 * 1024, 1024),
    payload_bytes=env.number("EVENFLOW_MAX_PAYLOAD_BYTES", 1024 * 1024, 1),
    result_bytes=env.number("EVENFLOW_MAX_RESULT_BYTES", 1024 * 1024, 1),
    checkpoint_bytes=env.number("EVENFLOW_MAX_CHECKPOINT_BYTES", 256 * 1024, 1),
    batch=env.number("EVENFLOW_MAX_BATCH", 1000, 1, 10_000),
    depth=env.number("EVENFLOW_MAX_DEPTH", 64, 1, 200),
    task_capabilities=env.number("EVENFLOW_MAX_TASK_CAPABILITIES", 16, 1, 1000),
    task_tools=env.number("EVENFLOW_MAX_TASK_TOOLS", 8, 1, 1000),
    worker_capabilities=env.number("EVENFLOW_MAX_WORKER_CAPABILITIES", 64, 1, 1000),
    lanes=env.number("EVENFLOW_MAX_LANES", 5000, 1, 1_000_000),
)
DATA_UPLOAD_MAX_MEMORY_SIZE = EVENFLOW_LIMITS.body_bytes
EVENFLOW_API_PER_MINUTE = env.number("EVENFLOW_API_PER_MINUTE", 300_000, 0)
EVENFLOW_METRICS_OPEN = env.flag("EVENFLOW_METRICS_OPEN")
EVENFLOW_WEBHOOK_PRIVATE = env.flag("EVENFLOW_WEBHOOK_PRIVATE")
EVENFLOW_INSTALLATION = env.text("EVENFLOW_INSTALLATION", "Evenflow")

HTTPS = env.flag("EVENFLOW_HTTPS")
ALLOWED_HOSTS = env.words("EVENFLOW_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("EVENFLOW_ORIGINS", [])
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("EVENFLOW_BEHIND_PROXY") else None
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "daphne",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "django.contrib.postgres",
    "channels",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "django_htmx",
    "template_partials",
    "heroicons",
    "django_q",
    "pgtrigger",
    "pghistory",
    "dispatch",
]

MIDDLEWARE = [
    "dispatch.api.identity.identified",
    "dispatch.api.problems.problems_only",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dispatch.ui.sessions.seen",
    "dispatch.ui.refusals.explained",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
AUTH_USER_MODEL = "dispatch.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "dispatch.ui.context.installation",
            ],
            "libraries": {"console": "dispatch.ui.tags"},
        },
    }
]

# Only the web process has many threads and never forks; controlplane/asgi.py says that this is one.
POOL = env.number("EVENFLOW_DB_POOL", 40, 0, 1000) if env.flag("EVENFLOW_WEB_PROCESS") else 0
DATABASES = {"default": embedded.database_settings(DATABASE_URL, DATA_DIR, POOL)}

EVENFLOW_QUARANTINE_TASKS = env.number("EVENFLOW_QUARANTINE_TASKS", 10, 0, 10_000)
EVENFLOW_BREAKER_FAILURES = env.number("EVENFLOW_BREAKER_FAILURES", 20, 0, 1_000_000)
EMAIL_HOST = env.text("EVENFLOW_SMTP_HOST")
EMAIL_PORT = env.number("EVENFLOW_SMTP_PORT", 587, 1, 65535)
EMAIL_HOST_USER = env.text("EVENFLOW_SMTP_USER")
EMAIL_HOST_PASSWORD = env.text("EVENFLOW_SMTP_PASSWORD")
EMAIL_USE_SSL = EMAIL_PORT == 465
EMAIL_USE_TLS = not EMAIL_USE_SSL and env.flag("EVENFLOW_SMTP_TLS", True)
EMAIL_TIMEOUT = 10
# Without a mail server mails are written to the log of the process that would send them.
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"
DEFAULT_FROM_EMAIL = env.text("EVENFLOW_MAIL_FROM", "evenflow@localhost")
EVENFLOW_ALERT_WAIT_S = env.number("EVENFLOW_ALERT_WAIT_S", 10, 0, 3600)
EVENFLOW_ALERT_REPEAT_S = env.number("EVENFLOW_ALERT_REPEAT_S", 14_400, 60, 31_536_000)
EVENFLOW_SLO_OBJECTIVE = env.number("EVENFLOW_SLO_OBJECTIVE", 95, 1, 99)
EVENFLOW_SAMPLES_DAYS = env.number("EVENFLOW_SAMPLES_DAYS", 90, 1, 3650)
EVENFLOW_BREAKER_HOLD_S = env.number("EVENFLOW_BREAKER_HOLD_S", 300, 1, 86_400)

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "dispatch.ui.adapters.ClosedSignup"
ACCOUNT_FORMS = {
    "login": "dispatch.ui.forms.SignIn",
    "change_password": "dispatch.ui.forms.ChangePassword",
    "set_password": "dispatch.ui.forms.SetPassword",
    "reset_password": "dispatch.ui.forms.ResetPassword",
    "reset_password_from_key": "dispatch.ui.forms.NewPassword",
    "reauthenticate": "dispatch.ui.forms.Reauthenticate",
}
ACCOUNT_SESSION_REMEMBER = True  # signed in for SESSION_COOKIE_AGE, also when the browser is closed
ACCOUNT_LOGOUT_REDIRECT_URL = "/login"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # no mail to addresses without an account
ACCOUNT_EMAIL_NOTIFICATIONS = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if HTTPS else "http"
ACCOUNT_REAUTHENTICATION_TIMEOUT = 900
ACCOUNT_RATE_LIMITS = {"login_failed": "20/5m/ip,5/5m/key"}  # the lock-out of an address and of an account
ALLAUTH_TRUSTED_PROXY_COUNT = 1 if env.flag("EVENFLOW_BEHIND_PROXY") else 0
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_ADAPTER = "dispatch.ui.adapters.SealedFactors"
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = EVENFLOW_INSTALLATION
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS  # passkeys on http://localhost
MFA_FORMS = {
    "authenticate": "dispatch.ui.forms.Factor",
    "reauthenticate": "dispatch.ui.forms.FactorAgain",
    "activate_totp": "dispatch.ui.forms.ActivateTotp",
}
OIDC = env.oidc(
    issuer=env.text("EVENFLOW_OIDC_ISSUER"),
    client_id=env.text("EVENFLOW_OIDC_CLIENT_ID"),
    client_secret=env.text("EVENFLOW_OIDC_CLIENT_SECRET"),
    name=env.text("EVENFLOW_OIDC_NAME", "company sign-in"),
    trust_email=env.flag("EVENFLOW_OIDC_TRUST_EMAIL"),
)
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": OIDC}}
SOCIALACCOUNT_ADAPTER = "dispatch.ui.adapters.InvitedOnly"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True  # an account belongs to whom the provider vouches for its address
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10
CACHES = {
    # What limits tries to sign in: shared by all web processes. q2's own statistics stay where they are made.
    "default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "throttle"},
    "q2": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
SESSION_COOKIE_AGE = 12 * 3600

CHANNEL_LAYERS: dict[str, Any] = {"default": {"BACKEND": "dispatch.live.layer.NotifyLayer"}}
if REDIS_URL := env.text("REDIS_URL"):
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
    }

Q_CLUSTER = {
    "name": "evenflow",
    "orm": "default",
    "cache": "q2",
    "workers": env.number("EVENFLOW_Q_WORKERS", 2, 1, 64),
    "timeout": 300,
    "retry": 360,
    "max_attempts": 3,
    "poll": 1,
    "save_limit": 1000,
    "catch_up": False,
    "label": "Slow jobs",
    "log_level": "WARNING",
}

LOG_FORMAT = env.choice("EVENFLOW_LOG_FORMAT", "line", "json")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": OneLine, "format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s", "datefmt": "%H:%M:%S"},
        "json": {"()": JsonLine},
    },
    # A 503 while a needed part is away is an answer, not an event.
    "filters": {
        "no_503": {"()": CallbackFilter, "callback": lambda record: getattr(record, "status_code", 0) != 503},
        "outages": {"()": Outages},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["no_503", "outages"]}
    },
    "root": {"handlers": ["stderr"], "level": env.text("EVENFLOW_LOG", "WARNING").upper()},
    "loggers": {
        "dispatch": {"level": env.text("EVENFLOW_LOG", "INFO").upper()},
        "django": {"handlers": [], "propagate": True},
        "django.request": {"level": "ERROR"},  # what clients do wrong is their answer's business
        "psycopg.pool": {"level": "ERROR"},  # its warnings are told by whoever misses a connection
        "django-q": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}

STATIC_URL = "/static/"
STATIC_ROOT: Path | None = Path(env.text("EVENFLOW_STATIC_ROOT", str(DATA_DIR / "static")))  # `up` and `setup` fill it
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {"staticfiles": {"BACKEND": "dispatch.ui.storage.HashedStatic"}}

_SELF = "'self'"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": [_SELF],
        "style-src": [_SELF],
        "img-src": [_SELF, "data:"],
        "font-src": [_SELF],
        "connect-src": [_SELF],
        "form-action": [_SELF, *(app["settings"]["server_url"] for app in OIDC)],  # browsers check redirects too
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "manifest-src": [_SELF],
    }
}
