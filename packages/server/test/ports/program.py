"""A program that says what it was asked, for tests of the proxy. Only Python's own library."""

import base64
import hashlib
import json
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Program(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read_body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0))), ""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        trailers = b"".join(iter(self.rfile.readline, b"\r\n"))
        return body, trailers.decode()

    def handle_any(self):
        name = self.path.split("?")[0].strip("/").replace("-", "_")
        getattr(self, f"do_{name}", self.echo)()

    def echo(self):
        body, trailers = self.read_body()
        told = {
            "method": self.command,
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "sha256": hashlib.sha256(body).hexdigest(),
            "length": len(body),
            "trailers": trailers,
        }
        self.reply(json.dumps(told).encode(), [("Content-Type", "application/json"), ("X-Program", "one"), ("X-Program", "two")])

    def reply(self, body, headers=(), status=200):
        self.send_response(status, "Just So")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_events(self):
        """One event, then silence until the client asks for the rest on another connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        self.server.more.acquire()
        self.wfile.write(b"data: second\n\n")
        self.close_connection = True

    def do_more(self):
        self.server.more.release()
        self.reply(b"")

    def do_chunks(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Sum")
        self.end_headers()
        self.wfile.write(b"3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n")

    def do_early(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
        self.reply(b"late")

    def do_broken(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        self.close_connection = True

    def do_smuggle(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.close_connection = True

    def do_noise(self):
        self.wfile.write(b"this is no HTTP at all\r\n\r\n")
        self.close_connection = True

    def handle_expect_100(self):
        return self.path == "/refuse" or super().handle_expect_100()

    def do_refuse(self):
        """Answers before it has the body, and never says 100."""
        self.reply(b"no", [("Connection", "close")], 417)
        self.close_connection = True

    def do_redirect(self):
        self.reply(b"", [("Location", self.headers["x-to"])], 307)

    def do_cookies(self):
        cookies = ["a=1; Path=/app; Domain=localhost", "b=2; HttpOnly", "sandpool_link=theirs"]
        headers = [("Set-Cookie", cookie) for cookie in cookies]
        self.reply(b"", [*headers, ("Clear-Site-Data", "*"), ("Service-Worker-Allowed", "/")])

    def do_zeros(self):
        self.send_response(200)
        self.send_header("Content-Length", str(int(self.path.split("?")[1])))
        self.end_headers()
        left = int(self.path.split("?")[1])
        while left > 0:
            self.wfile.write(bytes(min(left, 65536)))
            left -= 65536

    def do_websocket(self):
        """Answers each message with the same, in one frame of at most 125 bytes, and says first what it was asked with."""
        accept = base64.b64encode(hashlib.sha1((self.headers["sec-websocket-key"] + KEY).encode()).digest()).decode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)):
            self.send_header(name, value)
        if "sec-websocket-protocol" in self.headers:
            self.send_header("Sec-WebSocket-Protocol", self.headers["sec-websocket-protocol"])
        self.end_headers()
        self.frame(json.dumps([self.headers.get("authorization"), self.headers["host"]]).encode())
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                break
            mask, length = self.rfile.read(4), head[1] & 127
            body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            self.frame(body)
        self.wfile.write(b"\x88\x02\x03\xe8")
        self.close_connection = True

    def frame(self, body):
        self.wfile.write(bytes([0x81, len(body)]) + body)

    def do_other(self):
        """An upgrade of its own: says back what it hears, upside down, until the other side has said all."""
        self.wfile.write(b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: upside-down\r\n\r\nhello\n")
        self.connection.settimeout(30)
        while line := self.rfile.readline():
            self.wfile.write(line.strip()[::-1] + b"\n")
        self.wfile.write(b"bye\n")
        self.close_connection = True

    def do_sleep(self):
        time.sleep(0.2)
        self.reply(b"slept")


for verb in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "REPORT", "PURGE"):
    setattr(Program, f"do_{verb}", Program.handle_any)

if __name__ == "__main__":
    import threading

    ThreadingHTTPServer.request_queue_size = 1024
    socketserver.TCPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Program)
    server.more = threading.Semaphore(0)
    print("listening", flush=True)
    server.serve_forever()
