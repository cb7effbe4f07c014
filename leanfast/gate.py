"""Many threads at once, or one alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """`with gate:` runs beside other threads, `with gate.alone():` beside none. Compiling needs it,
    since torch's tracer sets flags that every thread sees, and so does capturing a CUDA graph,
    which fails when another thread allocates."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._running: dict[int, int] = {}  # how deep each thread is inside
        self._alone: int | None = None
        self._waiting = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            while self._alone != me and (
                self._alone is not None or (self._waiting and me not in self._running)
            ):
                self._changed.wait()
            self._running[me] = self._running.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            depth = self._running[me] - 1
            if depth:
                self._running[me] = depth
                return
            del self._running[me]
            if self._waiting:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._lock:
            if self._alone == me:
                raise RuntimeError("already alone: an accelerated function called another")
            if me in self._running:
                raise RuntimeError("cannot compile or capture inside execution.quiet()")
            self._waiting += 1
            try:
                while self._alone is not None or self._running:
                    self._changed.wait()
            finally:  # Ctrl-C may end the wait, and others wait for who waits
                self._waiting -= 1
                self._changed.notify_all()
            self._alone = me
        try:
            yield
        finally:
            with self._lock:
                self._alone = None
                self._changed.notify_all()
