import io
import logging
import sys
from collections.abc import Iterator

import pytest

from asyncrl.errors import ConfigError
from asyncrl.metrics import configure_logging


@pytest.fixture(autouse=True)
def restored_logger() -> Iterator[None]:
    logger = logging.getLogger("asyncrl")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


def test_a_record_is_one_line_with_its_level_and_place():
    stream = io.StringIO()
    configure_logging("info", stream)
    log = logging.getLogger("asyncrl.actor.worker")
    log.info("took it\nup")
    log.warning("gave %d up", 2)
    log.debug("unheard")
    first, second = stream.getvalue().splitlines()
    assert first.endswith(" INFO actor.worker: took it | up")
    assert second.endswith(" WARNING actor.worker: gave 2 up")


def test_an_exception_is_named_on_the_line_and_traced_only_at_debug():
    for level, lines in (("info", 1), ("debug", 5)):
        stream = io.StringIO()
        configure_logging(level, stream)
        try:
            raise ValueError("boom\nagain")
        except ValueError:
            logging.getLogger("asyncrl.proxy").exception("lost it")
        text = stream.getvalue()
        assert "ERROR proxy: lost it [ValueError: boom | again]" in text
        assert len(text.splitlines()) >= lines
        assert ("Traceback" in text) == (level == "debug")


def test_configuring_again_starts_over_and_leaves_other_handlers_alone():
    logger = logging.getLogger("asyncrl")
    other = logging.NullHandler()
    logger.addHandler(other)
    first, second = io.StringIO(), io.StringIO()
    configure_logging("info", first)
    configure_logging("info", second)
    logger.info("hello")
    assert first.getvalue() == ""
    assert second.getvalue().count("hello") == 1
    assert other in logger.handlers


def test_without_a_stream_lines_follow_the_standard_error_of_the_moment(
    monkeypatch: pytest.MonkeyPatch,
):
    configure_logging("info")
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)
    logging.getLogger("asyncrl.learner").info("above the panel")
    assert "above the panel" in later.getvalue()


def test_an_unknown_level_names_the_levels_there_are():
    with pytest.raises(ConfigError, match=r"log_level='loud'.*debug, info, warning"):
        configure_logging("loud")


def test_the_library_sets_no_handler_of_its_own():
    assert all(
        type(handler).__module__ != "asyncrl.metrics.logs"
        for handler in logging.getLogger("asyncrl").handlers
    )
