"""Frames that are rung: heard once, in order, whoever sleeps, and never instead of one that was sent before."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ludus.envs.vector.bell import BELL_BYTES, DRIVER, PATIENCE, WORKER, Bell
from ludus.envs.vector.wire import Channel, Kind


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """The channels of a driver and of its worker, with a bell."""
    ours, theirs = socket.socketpair()
    memory = bytearray(BELL_BYTES + 64)
    driver, worker = Channel(ours), Channel(theirs)
    driver.hang(Bell(memory, 64, DRIVER), rings=Kind.STEP, hears=Kind.DONE)
    worker.hang(Bell(memory, 64, WORKER), rings=Kind.DONE, hears=Kind.STEP)
    yield driver, worker
    driver.close()
    worker.close()


def soon() -> float:
    return time.monotonic() + 0.02


def test_a_frame_without_payload_never_reaches_the_socket_of_one_who_listens(
    ends: tuple[Channel, Channel],
) -> None:
    driver, worker = ends
    for number in range(1, 4):
        driver.send(Kind.STEP, number)
        assert worker.receive() == (Kind.STEP, number, b"")
        worker.send(Kind.DONE, number)
        assert driver.readable()
        assert driver.receive() == (Kind.DONE, number, b"")
    for end in ends:
        assert not end.readable()
        with pytest.raises(TimeoutError):
            end.receive(soon())


def test_payloads_and_other_kinds_are_sent(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    driver.send(Kind.CALL, 1, b"what")
    assert worker.receive() == (Kind.CALL, 1, b"what")
    worker.send(Kind.ERROR, 1, b"that")
    assert driver.receive() == (Kind.ERROR, 1, b"that")
    driver.send(Kind.STEP, 2)
    assert worker.receive() == (Kind.STEP, 2, b"")
    worker.send(Kind.DONE, 2, b"infos")
    assert driver.readable()
    assert driver.receive() == (Kind.DONE, 2, b"infos")
    driver.send(Kind.STEP, 3)
    assert worker.receive() == (Kind.STEP, 3, b"")


def test_who_sleeps_is_woken_and_hears_it_once(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    heard = []

    def listen() -> None:
        while not heard or heard[-1][0] is not Kind.CLOSE:
            heard.append(worker.receive())

    listener = threading.Thread(target=listen)
    listener.start()
    for number in range(1, 40):
        # before, about when and after it falls asleep, and after it has looked at the bell again
        time.sleep((0.0, PATIENCE, 4 * PATIENCE, 0.007)[number % 4])
        driver.send(Kind.STEP, number)
        while len(heard) < number:
            time.sleep(0)
        worker.send(Kind.DONE, number)
        assert driver.receive(time.monotonic() + 1)[:2] == (Kind.DONE, number)
    driver.send(Kind.CLOSE, 40)
    listener.join(timeout=5)
    assert [frame[:2] for frame in heard] == [(Kind.STEP, n) for n in range(1, 40)] + [(Kind.CLOSE, 40)]


def test_a_step_does_not_overtake_what_was_not_answered(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    driver.send(Kind.CALL, 1, b"first")  # whoever waited for its answer was interrupted
    driver.send(Kind.STEP, 2)
    assert worker.receive() == (Kind.CALL, 1, b"first")
    worker.send(Kind.DONE, 1, b"late")
    assert worker.receive() == (Kind.STEP, 2, b"")
    worker.send(Kind.DONE, 2)
    assert driver.receive() == (Kind.DONE, 2, b"")  # nobody waits for the other any more
    driver.send(Kind.STEP, 3)
    worker.receive()
    worker.send(Kind.DONE, 3, b"infos")
    assert driver.receive() == (Kind.DONE, 3, b"infos")


def test_a_step_is_not_lost_to_what_is_sent_before_anybody_heard_it(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    driver.send(Kind.STEP, 1)
    driver.send(Kind.CALL, 2, b"next")
    assert worker.receive() == (Kind.STEP, 1, b"")
    assert worker.receive() == (Kind.CALL, 2, b"next")


def test_the_end_of_the_other_side_is_heard(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    worker.close()
    with pytest.raises(EOFError):
        driver.receive(time.monotonic() + 5)
