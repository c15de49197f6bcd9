from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.testing.inspection import Inspector

pytest_plugins = ["pytester"]


@pytest.fixture
def inspector(redis_server: EmbeddedServer, redis_url: str) -> Iterator[Inspector]:
    assert redis_url == redis_server.url
    with Inspector(redis_server.socket_path, redis_server.password) as inspector:
        yield inspector


@pytest.fixture(autouse=True)
def quiet_settings(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")


def test_loading_the_plugin_imports_neither_redis_nor_gymnasium_nor_torch() -> None:
    code = (
        "import sys; import asyncrl.testing.plugin; "
        "print({'redis', 'gymnasium', 'torch', 'numpy', 'anyio'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_the_server_is_one_for_the_session_and_run_names_differ(
    redis_server: EmbeddedServer, run_name: str, pytester: pytest.Pytester
) -> None:
    redis_server.check()
    assert run_name.startswith("test-")
    pytester.makepyfile("""
        seen = []
        def test_one(redis_server, run_name): seen.append((redis_server, run_name))
        def test_two(redis_server, run_name): seen.append((redis_server, run_name))
        def test_both():
            assert seen[0][0] is seen[1][0]
            assert seen[0][1] != seen[1][1]
    """)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_keys_of_the_tests_own_runs_are_removed_without_complaint(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("""
        from asyncrl.testing.inspection import Inspector
        def test_leaves(redis_server, redis_url, run_name):
            with Inspector(redis_server.socket_path, redis_server.password) as inspector:
                inspector.command("SET", "asyncrl:{%s}:meta" % run_name, "1")
                inspector.command("SET", "asyncrl:{%s-2}:meta" % run_name, "1")
        def test_nothing_is_left(redis_server):
            with Inspector(redis_server.socket_path, redis_server.password) as inspector:
                assert inspector.keys() == set()
    """)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_foreign_key_fails_the_test_that_leaves_it_and_no_other(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("""
        from asyncrl.testing.inspection import Inspector
        def test_leaves(redis_server, redis_url):
            with Inspector(redis_server.socket_path, redis_server.password) as inspector:
                inspector.command("SET", "stray", "1")
        def test_innocent(redis_url): pass
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the test left behind keys of other runs than*stray*"])


def test_a_client_that_stays_connected_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import asyncrl.testing.plugin
        from asyncrl.testing.inspection import Inspector
        asyncrl.testing.plugin._LEAVE_SECONDS = 0.1
        kept = []
        def test_leaves(redis_server, redis_url):
            inspector = Inspector(redis_server.socket_path, redis_server.password)
            inspector.command("CLIENT", "SETNAME", "forgotten")
            kept.append(inspector)
        def test_innocent(redis_url):
            pass
        def test_close():
            kept[0].close()
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*connected clients:*", "*name=forgotten*"])


def test_the_inspector_speaks_enough_of_the_protocol(inspector: Inspector, run_name: str) -> None:
    key = f"asyncrl:{{{run_name}}}:\u00e9"
    assert inspector.command("SET", key, "v") == b"OK"
    assert inspector.command("GET", key) == b"v"
    assert inspector.command("GET", f"{key}-missing") is None
    assert inspector.command("EXISTS", key) == 1
    assert inspector.command("MGET", key, "x") == [b"v", None]
    assert inspector.keys() == {key}
    with pytest.raises(RuntimeError, match="unknown command"):
        inspector.command("NOPE")
    inspector.delete([key])
    assert inspector.keys() == set()
    assert len(inspector.clients()) == 1
