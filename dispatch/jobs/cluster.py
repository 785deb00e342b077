"""The cluster: django-q2's own, whose sentinel also keeps our loops running: dispatcher, reconciler, messenger.

Why not as q2 tasks: q2 looks at its schedules every 30 s, and a task on its queue inherits retry and timeout.
Anything may be killed or stand still (jobs/vigil.py): the sentinel renews its processes, the cluster process renews the
sentinel, and every process dies with its parent, so nothing is left behind and nothing runs twice.
Written against django-q2 1.11 (tests/jobs/test_cluster.py pins what is used of it).
"""

import importlib
import logging
import signal
from collections.abc import Callable
from multiprocessing import Event, Value
from typing import Any

from django import db
from django_q import cluster as q2
from django_q.conf import Conf
from django_q.monitor import monitor
from django_q.pusher import pusher
from django_q.queues import Queue
from django_q.signals import post_spawn

from dispatch.jobs import lifeline
from dispatch.jobs.vigil import Beat, Vigil, inherited

logger = logging.getLogger(__name__)

LOOPS = ("dispatcher", "reconciler", "messenger")  # modules of this package with a function run(stop)
STOP_PATIENCE_S = 5.0
RESTART_S = 0.5


def _run_loop(name: str, beat: Beat) -> None:
    """The body of one loop's process; SIGTERM asks it to stop, SIGINT is left to the cluster process."""
    lifeline.name_process(f"ef-{name}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    importlib.import_module(f"dispatch.jobs.{name}").run(lifeline.Stop(signal.SIGTERM, looked=beat.beat))


def _run_named(name: str, target: Callable[..., None], *args: Any) -> None:
    lifeline.name_process(name)
    target(*args)


def _name_worker(**_: Any) -> None:
    lifeline.name_process("ef-q2-worker")


class _Turning:
    """The event that q2's guard waits on once in each of its rounds; `turn` is called before each wait."""

    def __init__(self, event: Any, turn: Callable[[], None]) -> None:
        self._event, self._turn = event, turn
        self.is_set = event.is_set

    def wait(self, timeout: float | None = None) -> bool:
        self._turn()
        return bool(self._event.wait(timeout))


class DispatchSentinel(q2.Sentinel):
    """q2's sentinel with the loops in its pool."""

    pool: list[Any]
    monitor: Any
    pusher: Any
    stop_event: Any

    def __init__(self, beat: Beat, *args: Any, **options: Any) -> None:
        lifeline.name_process("ef-sentinel")
        post_spawn.connect(_name_worker)
        self.loops: dict[Any, str] = {}
        self.beat, self.vigil = beat, Vigil()
        super().__init__(*args, **options)

    def spawn_cluster(self) -> None:
        """Start q2's processes, then the loops."""
        super().spawn_cluster()
        for name in LOOPS:
            self._spawn_loop(name)

    def guard(self) -> None:
        """q2's guard, with our look at all processes in each round."""
        self.stop_event = _Turning(self.stop_event, self.look)
        super().guard()

    def look(self) -> None:
        """Beat, and kill what stands still: the guard's next round starts it again."""
        self.beat.beat()
        for process in [self.monitor, self.pusher, *self.pool]:
            name, beat = self.loops.get(process), getattr(process, "beat", None)
            # a loop that is started again is the same one to the watch: its patience grows
            why = self.vigil.look(name or process.name, process.pid, beat and beat.count)
            if why:
                logger.warning("the %s (process %s) %s and is killed", name or "q2 process", process.pid, why)
                process.kill()

    def spawn_pusher(self) -> Any:
        """q2's pusher under a name of its own."""
        return self.spawn_process(_run_named, "ef-q2-pusher", pusher, self.task_queue, self.event_out, self.broker)

    def spawn_monitor(self) -> Any:
        """q2's monitor under a name of its own."""
        return self.spawn_process(_run_named, "ef-q2-monitor", monitor, self.result_queue, self.broker)

    def _spawn_loop(self, name: str) -> None:
        beat = Beat()
        process = self.spawn_process(_run_loop, name, beat)
        process.beat = beat
        process.timer = Value("f", -1)  # what q2's guard counts down for its workers; -1 never runs out
        self.pool.append(process)
        self.loops[process] = name

    def reincarnate(self, process: Any) -> None:
        """Start a dead process again, each kind in its way."""
        if process in self.loops:
            name = self.loops.pop(process)
            logger.warning("the %s ended with code %s and is started again", name, process.exitcode)
            db.connections.close_all()
            self.pool.remove(process)
            self._spawn_loop(name)
        elif process not in (self.monitor, self.pusher, *self.pool):
            pass  # renewed a moment ago, together with another one
        elif process.exitcode is not None and process.exitcode < 0:
            logger.warning("a q2 process was killed; its queues and all who use them are renewed")
            self._renew_queues()
        else:
            super().reincarnate(process)

    def _renew_queues(self) -> None:
        """A process killed while it waits at a queue keeps the queue's lock for ever, so make new queues.

        What q2's workers were doing is given out again by q2 after its retry time.
        """
        for process in [self.monitor, self.pusher, *(p for p in self.pool if p not in self.loops)]:
            process.kill()
            process.join()
        db.connections.close_all()
        self.pool = list(self.loops)
        self.task_queue = Queue(maxsize=Conf.QUEUE_LIMIT) if Conf.QUEUE_LIMIT else Queue()
        self.result_queue = Queue()
        for _ in range(self.pool_size):
            self.spawn_worker()
        self.monitor, self.pusher = self.spawn_monitor(), self.spawn_pusher()

    def stop(self) -> None:
        """Stop the loops, then q2's processes."""
        for process in self.loops:
            process.terminate()
        for process in self.loops:
            process.join(STOP_PATIENCE_S)
            process.kill()
        super().stop()


class DispatchCluster(q2.Cluster):
    """q2's cluster process; a signal is only noted here, `run` acts on it."""

    sentinel: Any

    def __init__(self, stop: lifeline.Stop) -> None:
        super().__init__()
        self.asked = stop
        self.beat = Beat()

    def start(self) -> int:
        """Start the sentinel without waiting for it: `run` watches over its start too."""
        self.stop_event, self.start_event, self.beat = Event(), Event(), Beat()
        events = (self.stop_event, self.start_event)
        args = (self.beat, *events, self.cluster_id, self.broker, self.timeout)
        self.sentinel = q2.get_mp_context().Process(target=DispatchSentinel, args=args)
        self.sentinel.start()
        return int(self.pid)

    def sig_handler(self, signum: int, frame: Any) -> None:
        """Note the request to stop."""
        self.asked.set()


def run() -> None:
    """Run until SIGTERM or SIGINT; a sentinel that dies or stands still is replaced within seconds."""
    lifeline.name_process("ef-cluster")
    lifeline.bind_forks()
    stop = lifeline.Stop(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, looked=inherited().beat)
    cluster, vigil = DispatchCluster(stop), Vigil()  # the cluster takes the first two signals over, and passes them on
    while not stop.is_set():
        cluster.start()
        while not stop.wait(0.2) and cluster.sentinel.is_alive():
            if why := vigil.look("sentinel", cluster.sentinel.pid, cluster.beat.count):
                logger.warning("the sentinel (process %s) %s and is killed", cluster.sentinel.pid, why)
                cluster.sentinel.kill()
                cluster.sentinel.join()
        if not stop.is_set():
            logger.warning("the sentinel died with code %s and is started again", cluster.sentinel.exitcode)
            stop.wait(RESTART_S)
    cluster.stop()
