"""What dispatch/jobs/cluster.py uses of django-q2 is as it was when it was written."""

import inspect
from importlib.metadata import version
from unittest.mock import Mock

import django_q.cluster
import django_q.monitor
import django_q.pusher
import pytest
from django_q.conf import Conf

from dispatch.jobs import cluster
from dispatch.jobs.vigil import Beat, Vigil


def test_the_pinned_version() -> None:
    assert version("django-q2").startswith("1.11.")


def test_the_parts_that_are_overridden_or_called() -> None:
    def names(call: object) -> list[str]:
        return list(inspect.signature(call).parameters)  # type: ignore[arg-type]

    sentinel = django_q.cluster.Sentinel
    assert names(sentinel.spawn_process) == ["self", "target", "args"]
    assert names(sentinel.reincarnate) == ["self", "process"]
    assert names(sentinel.spawn_cluster) == names(sentinel.spawn_pusher) == names(sentinel.spawn_monitor) == ["self"]
    assert names(sentinel.spawn_worker) == names(sentinel.stop) == names(sentinel.guard) == ["self"]
    assert names(django_q.pusher.pusher) == ["task_queue", "event", "broker"]
    assert names(django_q.monitor.monitor) == ["result_queue", "broker"]
    assert names(django_q.cluster.Cluster.sig_handler) == ["self", "signum", "frame"]
    assert names(sentinel.__init__)[1:6] == ["stop_event", "start_event", "cluster_id", "broker", "timeout"]
    guard = inspect.getsource(sentinel.guard)
    assert "for p in self.pool" in guard and "p.timer" in guard and "self.reincarnate(p)" in guard
    assert guard.count("self.stop_event.wait(cycle)") == 1, "each round looks at the processes there"
    assert "while len(self.pool)" in inspect.getsource(sentinel.stop), "the stop waits for our loops too"
    assert Conf.GUARD_CYCLE <= 0.5


class Sentinel(cluster.DispatchSentinel):
    """A sentinel that starts nothing."""

    def __init__(self) -> None:
        self.monitor, self.pusher, self.pool, self.loops, self.pool_size = Mock(), Mock(), [], {}, 2
        self.task_queue, self.result_queue, self.event_out = Mock(), Mock(), Mock()
        self.broker, self.timeout = Mock(), 10
        self.beat, self.vigil, self.stop_event = Beat(), Vigil(), Mock()
        self.spawned: list[object] = []

    def spawn_process(self, target: object, *args: object) -> Mock:
        process = Mock(exitcode=None)
        self.spawned.append(args[0] if target in {cluster._run_loop, cluster._run_named} else target)
        if target is django_q.cluster.worker:
            self.pool.append(process)
        return process


@pytest.fixture
def sentinel() -> Sentinel:
    made = Sentinel()
    for name in cluster.LOOPS:
        made._spawn_loop(name)
    made.spawn_worker()
    made.spawned.clear()
    return made


def test_a_dead_loop_is_spawned_again(sentinel: Sentinel) -> None:
    dead = next(process for process, name in sentinel.loops.items() if name == "reconciler")
    sentinel.reincarnate(dead)
    assert sentinel.spawned == ["reconciler"]
    assert dead not in sentinel.pool and sorted(sentinel.loops.values()) == sorted(cluster.LOOPS)
    assert all(process in sentinel.pool for process in sentinel.loops)


def test_a_killed_q2_process_renews_the_queues_and_leaves_the_loops_alone(sentinel: Sentinel) -> None:
    loops, worker = list(sentinel.loops), sentinel.pool[-1]
    old = sentinel.task_queue
    worker.exitcode = -9
    sentinel.reincarnate(worker)
    assert sentinel.task_queue is not old
    assert all(process in sentinel.pool for process in loops)
    assert not any(loop.kill.called for loop in loops)
    assert sentinel.spawned == [django_q.cluster.worker] * 2 + ["ef-q2-monitor", "ef-q2-pusher"]
    sentinel.reincarnate(worker)  # q2's guard may come by once more with its old list
    assert len(sentinel.spawned) == 4


def test_what_stands_still_is_killed_in_the_guards_round(sentinel: Sentinel, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = next(process for process, name in sentinel.loops.items() if name == "dispatcher")
    told = {hung: "has stood still"}
    everybody = [sentinel.monitor, sentinel.pusher, *sentinel.pool]
    by_name = {sentinel.loops.get(process, process.name): process for process in everybody}
    assert set(cluster.LOOPS) < by_name.keys(), "a loop started again keeps its name, and so its record"
    monkeypatch.setattr(sentinel.vigil, "look", lambda name, pid, count: told.get(by_name[name]))
    sentinel.stop_event.wait.return_value = True
    turning = cluster._Turning(sentinel.stop_event, sentinel.look)
    assert turning.wait(0.5) is True
    assert [process for process in everybody if process.kill.called] == [hung]
    assert sentinel.beat.count == 1, "and the guard has beaten"
