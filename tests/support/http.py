"""A GET request beside the event loop."""

import asyncio
import urllib.error
import urllib.request


async def get(url: str, token: str = "") -> tuple[int, str]:
    """Status and text; 0 where nothing listens."""
    return await asyncio.to_thread(_get, url, token)


def _get(url: str, token: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
