"""The ASGI application: agents' verbs, pages and JSON API, websockets.

HTTP goes to the hot plane, which serves the agents' verbs itself and hands the rest to Django (EVENFLOW_HOT=0: all of
it to Django); websockets go to the live consumers, from allowed origins only. Served by daphne, which knows no
lifespan events, so the pulse of this process starts here.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
os.environ.setdefault("EVENFLOW_DB_POOL", "40")  # this process never forks and has many threads

from django.core.asgi import get_asgi_application

application = get_asgi_application()
