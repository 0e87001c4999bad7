"""An HTTP server for tests: answers with bytes the test wrote, records what came, and can break its connections."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


Answer = bytes | None | Callable[[Request], bytes | None]


def http(status: int, body: bytes = b"", content_type: str = "application/json", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def http_json(status: int, value: object) -> bytes:
    return http(status, json.dumps(value).encode())


def http_error(status: int, code: str, message: str = "no", **details: object) -> bytes:
    return http_json(status, {"error": {"code": code, "message": message, "hint": "try again", "details": details}})


def chunked(pieces: list[bytes], content_type: str = "application/x-ndjson", status: int = 201) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


class ReplayServer:
    """Answers each ``METHOD /path`` with the next of its queue, the last one for ever; None closes the connection instead."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fallback: Callable[[Request], bytes] = lambda _: http_error(404, "not_found", "no such route")
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def answer(self, route: str, *answers: Answer) -> None:
        self._answers[route] = deque(answers)

    def of(self, route: str) -> list[Request]:
        return [request for request in self.requests if f"{request.method} {request.path}" == route]

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, len(self._connections)), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            reader = connection.makefile("rb")
            while (request := self._read(reader, number)) is not None:
                self.requests.append(request)
                queue = self._answers[f"{request.method} {request.path}"]
                answer = (queue.popleft() if len(queue) > 1 else queue[0]) if queue else self.fallback
                data = answer(request) if callable(answer) else answer
                if data is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(data)
        except OSError:
            return

    def _read(self, reader: object, number: int) -> Request | None:
        line = reader.readline()  # type: ignore[attr-defined]
        if not line:
            return None
        method, path, _ = line.decode().split(" ")
        headers = {}
        while (header := reader.readline().decode().strip()) != "":  # type: ignore[attr-defined]
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))  # type: ignore[attr-defined]
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while (size := int(reader.readline(), 16)) > 0:  # type: ignore[attr-defined]
                body += reader.read(size + 2)[:-2]  # type: ignore[attr-defined]
            reader.readline()  # type: ignore[attr-defined]
        return Request(method, path, headers, body, number)
