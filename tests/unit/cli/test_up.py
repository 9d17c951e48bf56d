"""The process of `muster up`: it serves only while everything in it runs."""

import asyncio
import ssl

import click
import pytest
import uvicorn
from starlette.applications import Starlette

from muster.cli.tasks import Loop, Task, start, supervise
from muster.embedded import server
from muster.errors import MusterError


async def for_ever() -> None:
    await asyncio.Event().wait()


async def broken() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_raise())


async def _raise() -> None:
    raise RuntimeError("no more")


async def short() -> None:
    await asyncio.sleep(0)


def start_loops(*names: str) -> list[Task]:
    loops: dict[str, Loop] = {"for ever": for_ever, "broken": broken, "short": short}
    return start({name: loops[name] for name in names})


async def test_it_lasts_until_the_work_is_done() -> None:
    loops = start_loops("for ever")
    async with asyncio.timeout(10):
        await supervise(loops, short(), for_ever())
    assert not any(loop.done() for loop in loops)
    loops[0].cancel()


@pytest.mark.parametrize(("name", "says"), [("broken", "RuntimeError: no more"), ("short", "it gave no reason")])
async def test_a_loop_that_ends_ends_everything(name: str, says: str) -> None:
    """Whatever else is still at work; the error names the loop and the first cause."""
    loops = start_loops("for ever", name)
    async with asyncio.timeout(10):
        with pytest.raises(MusterError, match=f"the {name} ended by itself.*{says}") as caught:
            await supervise(loops, for_ever())
    assert caught.value.exit_code == 2
    for loop in loops:
        loop.cancel()


async def test_an_error_in_the_work_is_raised_as_it_is() -> None:
    async def stopped() -> None:
        raise click.Abort

    loops = start_loops("for ever")
    with pytest.raises(click.Abort):
        await supervise(loops, stopped(), for_ever())
    loops[0].cancel()


async def test_a_connection_lasts_longer_than_clients_pause() -> None:
    """`kubectl drain` asks again after 5 s on the same connection, others after 30; one that is cut then fails them."""
    config = server._config(Starlette(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    assert config.timeout_keep_alive > 60
    assert uvicorn.Config(Starlette()).timeout_keep_alive == 5, "which is why"
