"""`tcexplore mcp`: an MCP server on standard input and output, for agents that call tools."""

from __future__ import annotations

import asyncio

from tcexplore.cli.options import Request
from tcexplore.cli.terminal import refuse


def serve_mcp(request: Request) -> int:
    """Serve until the client closes standard input; return the exit status."""
    try:
        from tcexplore.cli.mcp_server import serve
    except ImportError as error:
        return refuse(f"`tcexplore mcp` needs mcp 2 ({error}). Try: python -m pip install 'tcexplore[mcp]'")
    asyncio.run(serve(request))
    return 0
