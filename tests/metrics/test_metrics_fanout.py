import pytest

from asyncrl.metrics import Event, Fanout, GuardedSink, Level, Message

HELLO = Message(level=Level.INFO, text="hello")


class Recorder:
    def __init__(self, log: list[str], name: str, *, broken: bool = False) -> None:
        self.log, self.name, self.broken = log, name, broken

    def write(self, event: Event) -> None:
        self._do("write")

    def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if self.broken:
            raise OSError("no")


class Fragile(GuardedSink):
    def __init__(self) -> None:
        super().__init__("Fragile")
        self.closed = 0

    def _write(self, event: Event) -> None:
        raise ValueError("cannot")

    def _close(self) -> None:
        self.closed += 1
        raise OSError("still cannot")


def test_events_reach_every_sink_in_order_and_the_last_is_closed_first():
    log: list[str] = []
    fanout = Fanout([Recorder(log, "a"), Recorder(log, "b")])
    fanout.write(HELLO)
    fanout.close()
    fanout.close()
    fanout.write(HELLO)
    assert log == ["a write", "b write", "b close", "a close"]


def test_a_sink_that_raises_is_reported_once_and_keeps_no_event_from_the_others(
    caplog: pytest.LogCaptureFixture,
):
    log: list[str] = []
    fanout = Fanout([Recorder(log, "bad", broken=True), Recorder(log, "good")])
    fanout.write(HELLO)
    fanout.write(HELLO)
    fanout.close()
    assert log == ["bad write", "good write", "good write", "good close"]
    assert len(caplog.records) == 1


def test_a_sink_that_raises_in_close_keeps_no_other_open(caplog: pytest.LogCaptureFixture):
    log: list[str] = []
    Fanout([Recorder(log, "good"), Recorder(log, "bad", broken=True)]).close()
    assert log == ["bad close", "good close"]
    assert len(caplog.records) == 1


def test_a_guarded_sink_closes_itself_at_its_first_error_whatever_it_is(
    caplog: pytest.LogCaptureFixture,
):
    sink = Fragile()
    sink.write(HELLO)
    sink.write(HELLO)
    sink.close()
    assert sink.closed == 1
    (record,) = caplog.records
    assert "ValueError: cannot" in record.getMessage()
