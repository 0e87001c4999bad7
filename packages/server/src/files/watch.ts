import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const NEWLINE = 0x0a;
const HEARTBEAT = Buffer.from('{"event":"heartbeat"}\n');

/** Answers with the changes, a JSON object a line, and a heartbeat between whole lines while nothing happens. */
export async function sendChanges(changes: Readable, response: ServerResponse, heartbeatMs: number): Promise<void> {
  let isBetweenLines = true;
  response.writeHead(200, {
    "Content-Type": "application/x-ndjson",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
  });
  response.flushHeaders();
  const heartbeat = setInterval(() => {
    // A client that does not read has enough to read.
    if (isBetweenLines && !response.writableNeedDrain) response.write(HEARTBEAT);
  }, heartbeatMs);
  changes.on("data", (chunk: Buffer) => {
    isBetweenLines = chunk.at(-1) === NEWLINE;
    heartbeat.refresh();
  });
  try {
    await pipeline(changes, response);
  } catch {
    response.destroy();
  } finally {
    clearInterval(heartbeat);
    changes.destroy();
  }
}
