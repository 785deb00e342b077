"""Addresses of the console; those of signing in and of the own account are in account_urls.py."""

from django.urls import path
from django.urls.resolvers import URLPattern, URLResolver

from dispatch.live import views as live
from dispatch.ui import account_urls
from dispatch.ui.views import (
    audit,
    bulk,
    capabilities,
    dead,
    fairness,
    overview,
    palette,
    policy,
    queue,
    queues,
    series,
    system,
    tasks,
    workers,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", overview.overview, name="overview"),
    path("queues", queues.queues, name="queues"),
    path("queues/<str:work_class>", queue.queue, name="queue"),
    path("queues/<str:work_class>/<str:tenant>", queue.queue, name="queue_tenant"),
    path("pause/all", queue.pause_all, name="pause_all"),
    path("resume/all", queue.resume_all, name="resume_all"),
    path("pause/<slug:scope>/<str:slug>", queue.pause, name="pause"),
    path("resume/<slug:scope>/<str:slug>", queue.resume, name="resume"),
    path("series.json", series.series, name="series"),
    path("tasks", tasks.task_list, name="tasks"),
    path("tasks/<int:task_id>", tasks.task, name="task"),
    path("tasks/<int:task_id>/requeue", tasks.requeue, name="requeue"),
    path("tasks/<int:task_id>/cancel", tasks.cancel, name="cancel"),
    path("tasks/<int:task_id>/revoke", tasks.revoke, name="revoke"),
    path("workers", workers.workers, name="workers"),
    path("workers/<int:worker_id>", workers.worker, name="worker"),
    path("workers/<int:worker_id>/<slug:verb>", workers.steer, name="steer"),
    path("dead", dead.dead, name="dead"),
    path("dead/act", dead.act, name="dead_act"),
    path("dead/<str:fingerprint>", dead.group, name="dead_group"),
    path("dead/<str:fingerprint>/triage", dead.decide, name="dead_triage"),
    path("bulk", bulk.jobs, name="bulk"),
    path("bulk/new", bulk.create, name="bulk_new"),
    path("bulk/<int:job_id>", bulk.job, name="bulk_job"),
    path("bulk/<int:job_id>/plan", bulk.plan, name="bulk_plan"),
    path("bulk/<int:job_id>/start", bulk.start, name="bulk_start"),
    path("bulk/<int:job_id>/results.csv", bulk.results, name="bulk_results"),
    path("bulk/<int:job_id>/<slug:verb>", bulk.steer, name="bulk_steer"),
    path("fairness", fairness.fairness, name="fairness"),
    path("fairness/<slug:kind>/<str:slug>", fairness.edit, name="edit"),
    path("fairness/<slug:kind>/<str:slug>/check", fairness.check, name="check"),
    path("capabilities", capabilities.capabilities, name="capabilities"),
    path("audit", audit.entries, name="audit"),
    path("system", system.system, name="system"),
    path("policy/<slug:kind>/<str:slug>/weight", policy.weight, name="weight"),
    path("palette", palette.palette, name="palette"),
    path("live/<path:name>.json", live.poll, name="poll"),
    *account_urls.urlpatterns,
]
