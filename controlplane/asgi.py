"""The ASGI application: agents' verbs, pages and JSON API, websockets.

HTTP goes to the hot plane, which serves the agents' verbs itself and hands the rest to Django (EVENFLOW_HOT=0: all of
it to Django); websockets go to the live consumers, from permitted origins only.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
os.environ.setdefault("EVENFLOW_DB_POOL", "40")  # this process has many threads and never forks

from django.core.asgi import get_asgi_application

from dispatch.jobs import lifeline

lifeline.name_process("ef-web")
django = get_asgi_application()

from dispatch import hot  # noqa: E402  # it needs the models, which Django has loaded by now

application = hot.application(django)
