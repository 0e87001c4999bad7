import { places } from "./world.ts";

/** What became of each attempt: what the other side said, or the error's name. */
export type Said = Record<
  "public" | "metadata" | "private" | "host" | "datagram" | "name" | "proxied" | "interfaces",
  string
>;

/** Python, for any machine: no address, no privilege and no module that is not there. */
export const attemptProgram = `
import json, os, socket, struct
def tcp(address, port, send=b""):
    try:
        with socket.create_connection((address, port), timeout=10) as one:
            one.sendall(send)
            return one.recv(200).decode().split("\\r\\n")[0].strip()
    except OSError as error:
        return type(error).__name__ if error.errno is None else os.strerror(error.errno)
def udp(address, port, data):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(10)
            one.connect((address, port))
            one.send(data)
            return one.recv(600)
    except OSError as error:
        return (type(error).__name__ if error.errno is None else os.strerror(error.errno)).encode()
def name(text):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in text.split("."))
    reply = udp("${places.gateway}", 53, b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\x01\\0\\x01")
    return socket.inet_ntoa(reply[-4:]) if reply[:2] == b"\\x12\\x34" and reply[7] == 1 else reply.decode(errors="replace")[:40]
proxy = os.environ.get("HTTPS_PROXY", "")
connect = b"CONNECT one.example:443 HTTP/1.1\\r\\nHost: one.example:443\\r\\n\\r\\n"
print(json.dumps({
    "public": tcp("${places.public}", 8080),
    "metadata": tcp("${places.metadata}", 8080),
    "private": tcp("${places.private}", 8080),
    "host": tcp("${places.host}", 8080),
    "datagram": udp("${places.private}", 9999, b"x").decode(),
    "name": name("one.example"),
    "proxied": tcp(proxy.split("//")[1].split(":")[0], int(proxy.rsplit(":", 1)[1]), connect) if proxy else "no proxy",
    "interfaces": " ".join(sorted(one[1] for one in socket.if_nameindex())),
}))
`;
