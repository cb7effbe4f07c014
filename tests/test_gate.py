import threading

import pytest

from leanfast.gate import Gate


def in_thread(work):
    """`work` begun in another thread; the event says that it is through."""
    done = threading.Event()

    def run():
        work()
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done


def enter(gate):
    with gate:
        pass


def enter_alone(gate):
    with gate.alone():
        pass


def test_threads_are_inside_together():
    gate = Gate()
    with gate:
        assert in_thread(lambda: enter(gate)).wait(5)


def test_nobody_enters_while_one_is_alone():
    gate = Gate()
    with gate.alone():
        others = [in_thread(lambda: enter(gate)), in_thread(lambda: enter_alone(gate))]
        assert not any(other.wait(0.05) for other in others)
    assert all(other.wait(5) for other in others)


def test_one_is_alone_once_the_others_have_left():
    gate = Gate()
    with gate:
        other = in_thread(lambda: enter_alone(gate))
        assert not other.wait(0.05)
    assert other.wait(5)


def test_who_waits_to_be_alone_goes_before_those_who_come_later():
    gate, order = Gate(), []

    def first():
        with gate.alone():
            order.append("alone")

    def second():
        with gate:
            order.append("together")

    with gate:
        alone = in_thread(first)
        while not gate._waiting:
            pass
        later = in_thread(second)
        assert not later.wait(0.05)
        enter(gate)  # a thread that is inside may go further in
    assert alone.wait(5)
    assert later.wait(5)
    assert order == ["alone", "together"]


def test_one_alone_may_enter_and_leaves_no_trace():
    gate = Gate()
    with gate.alone():
        enter(gate)
    enter_alone(gate)
    assert not gate._running


def test_what_would_wait_for_itself_is_an_error():
    gate = Gate()
    with gate, pytest.raises(RuntimeError, match=r"inside execution\.quiet"):
        enter_alone(gate)
    with gate.alone(), pytest.raises(RuntimeError, match="called another"):
        enter_alone(gate)
    enter_alone(gate)


def test_who_was_interrupted_while_waiting_holds_nobody_up(monkeypatch):
    gate, leave = Gate(), threading.Event()

    def stay():
        with gate:
            leave.wait(5)

    def interrupted():
        raise KeyboardInterrupt

    staying = in_thread(stay)
    while not gate._running:
        pass
    with monkeypatch.context() as patch:
        patch.setattr(gate._changed, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            enter_alone(gate)
    assert in_thread(lambda: enter(gate)).wait(5)
    leave.set()
    assert staying.wait(5)
