"""What one empty request costs over four HTTP clients, side by side, against one Node server that only answers.

Usage: python bench/transport.py [path of node]
"""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import urllib3
from urllib3.connection import HTTPConnection

from sandpool.discovery import parse_url
from sandpool.transport.connection import Connection

_SERVER = """
require("node:http").createServer((request, response) => {
  request.resume(); request.on("end", () => { response.writeHead(200, {"content-type": "application/octet-stream",
  "content-length": 1024}); response.end(Buffer.alloc(1024)); }); })
.listen(0, "127.0.0.1", function () { console.log(this.address().port); });
"""
_ROUNDS = 20
_REQUESTS = 200
_BODY = bytes(100)


def main() -> None:
    """Print the median of the medians of each client, in microseconds."""
    node = sys.argv[1] if len(sys.argv) > 1 else "node"
    server = subprocess.Popen([node, "-e", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        clients = _clients(port)
        medians: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(_ROUNDS):
            for name, request in clients.items():
                medians[name].append(statistics.median(_time(request) for _ in range(_REQUESTS)))
        for name, values in medians.items():
            print(f"{name:32} {statistics.median(values) * 1e6:8.1f} us")
    finally:
        server.terminate()
        server.wait()


def _time(request: Callable[[], object]) -> float:
    start = time.perf_counter()
    request()
    return time.perf_counter() - start


def _clients(port: int) -> dict[str, Callable[[], object]]:
    pool = urllib3.HTTPConnectionPool("127.0.0.1", port)
    low = HTTPConnection("127.0.0.1", port)
    standard = http.client.HTTPConnection("127.0.0.1", port)
    ours = Connection(parse_url(f"http://127.0.0.1:{port}", "", "the benchmark"))
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(_BODY)}\r\n\r\n".encode()

    def low_request() -> bytes:
        low.request("POST", "/", body=_BODY)
        return low.getresponse().read()

    def standard_request() -> bytes:
        standard.request("POST", "/", body=_BODY)
        return standard.getresponse().read()

    return {
        "urllib3.HTTPConnectionPool": lambda: pool.request("POST", "/", body=_BODY).data,
        "urllib3.connection.HTTPConnection": low_request,
        "http.client.HTTPConnection": standard_request,
        "sandpool.transport.Connection": lambda: ours.exchange(head, [_BODY], 10.0),
    }


if __name__ == "__main__":
    main()
