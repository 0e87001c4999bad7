import { createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Exception } from "../policy/exceptions.ts";
import type { Clients, Upstream } from "./clients.ts";

/** What the worker says, one JSON object a line; each is answered by `{"ok":true}` or `{"ok":false,"message"}`. */
export type ControlMessage =
  | { op: "hello" }
  | { op: "settings"; upstreams: Upstream[]; exceptions: Exception[] }
  | { op: "client"; address: string; egress: string[] | null }
  | { op: "forget"; address: string }
  | { op: "clients"; addresses: string[] }
  | { op: "end" };

/** What tells two services apart that do not speak alike; raised with every change of what they do. */
export const serviceVersion = 1;

/** Serves the worker. One connection at a time: a new server's takes over from the old one's. */
export function makeControl(clients: Clients, end: () => void): { server: Server; isHeld(): boolean } {
  let held: Socket | null = null;
  const server = createServer((socket) => {
    held?.destroy();
    held = socket;
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      if (held === socket) held = null;
    });
    createInterface({ input: socket }).on("line", (line) => {
      socket.write(`${JSON.stringify(take(clients, line, end))}\n`);
    });
  });
  return { server, isHeld: () => held !== null };
}

function take(clients: Clients, line: string, end: () => void): object {
  try {
    const message = JSON.parse(line) as ControlMessage;
    if (message.op === "settings") clients.configure(message.upstreams, message.exceptions);
    if (message.op === "client") clients.set(message.address, message.egress);
    if (message.op === "forget") clients.forget(message.address);
    if (message.op === "clients") clients.keepOnly(message.addresses);
    if (message.op === "end") setImmediate(end);
    return { ok: true, version: serviceVersion, pid: process.pid };
  } catch (error) {
    return { ok: false, message: (error as Error).message };
  }
}
