import type { ChildProcess } from "node:child_process";
import type { Duplex } from "node:stream";

/**
 * Takes descriptor 3's stream away from the child process object. Left there, Node would set it flowing when the child exits
 * (`flushStdio`) and what a short program wrote would be gone before its reader is attached.
 */
export function takeChannel(child: ChildProcess): Duplex {
  const streams = child.stdio as unknown as (Duplex | null)[];
  const channel = streams[3] as Duplex;
  streams[3] = null;
  // An unhandled error event would end the server; whoever owns the channel adds a listener of its own.
  channel.on("error", () => undefined);
  return channel;
}
