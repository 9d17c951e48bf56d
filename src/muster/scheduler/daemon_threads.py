"""Work in daemon threads: the process can end while they run.

Rule: threads of an executor are joined when the interpreter ends, however long they take; these are not.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(name: str, work: Callable[[], T]) -> T:
    """The result of some work, or what it raised. Where the caller is cancelled, the thread is left to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the result is not needed any more
            loop.call_soon_threadsafe(lambda: None if done.done() else set_outcome())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # as it is: the caller knows what to do with it
            settle(lambda error=error: done.set_exception(error))  # type: ignore[misc]
        else:
            settle(lambda: done.set_result(result))

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
