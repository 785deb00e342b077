"""GET /metrics for Prometheus: a `read` key for all tenants, or nobody in particular with EVENFLOW_METRICS_OPEN=1."""

from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatch.api import problems
from dispatch.core.samples import WAIT_BUCKETS_S
from dispatch.errors import Unauthenticated
from dispatch.services import access, metrics
from dispatch.services.messages import Caller

SIMPLE = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


class _Reading(Collector):
    """One reading as Prometheus' own values."""

    def __init__(self, families: list[metrics.Family]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        """The families, each with its samples."""
        for family in self.families:
            yield _histogram(family) if family.kind == "histogram" else _simple(family)


def _simple(family: metrics.Family) -> Metric:
    made: GaugeMetricFamily | CounterMetricFamily = SIMPLE[family.kind](family.name, family.text, labels=family.labels)
    for labels, value in family.samples.items():
        made.add_metric(labels, value)
    return made


def _histogram(family: metrics.Family) -> Metric:
    made = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    for labels, (counts, total) in family.samples.items():
        whole = [*counts, *[0] * (len(WAIT_BUCKETS_S) + 1 - len(counts))]
        bounds = [*map(str, WAIT_BUCKETS_S), "+Inf"]
        below = [sum(whole[: number + 1]) for number in range(len(whole))]
        made.add_metric(labels, list(zip(bounds, below, strict=True)), sum_value=total)
    return made


def _caller(request: HttpRequest) -> Caller:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        return access.authenticate(key.strip())
    if settings.EVENFLOW_METRICS_OPEN:
        return access.system("metrics")
    raise Unauthenticated("Send Authorization: Bearer with an API key.")


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    """The text that Prometheus reads; refusals are problem documents."""
    try:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Reading(metrics.collect(_caller(request))))
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
    except Exception as error:
        return problems.response(problems.problem(error))
