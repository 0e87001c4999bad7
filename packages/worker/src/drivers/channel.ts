import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";

/** Where the bytes of a channel go without a copy on the way. */
export interface ByteSink {
  /** Memory for the next bytes; never empty. */
  space(): Buffer;
  /** That many came, into the beginning of what `space` gave. */
  took(bytes: number): void;
  /** Bytes that came into other memory, which is not theirs to keep. */
  push(bytes: Buffer): void;
}

/** The two ends of a child's descriptor 3. */
export interface ChannelEnds {
  /** For the child's `stdio`. */
  childEnd: Socket | "pipe";
  /** The parent's end, once the child was spawned. */
  take(child: ChildProcess): Duplex;
}

const SCRATCH_BYTES = 64 * 1024;
const sinks = new WeakMap<Duplex, (sink: ByteSink) => void>();

/**
 * Opens a channel. Node's own pipes read into new memory each time, 64 KiB at once, and a pool of image environments then spends most of its
 * time in the collection of that; a socket made with `onread` reads into memory that is given. Only `connect` takes that option, so the two
 * ends meet at a listening socket in a folder that nobody else may enter. Where that cannot be made, a pipe serves as well.
 * A child may find its end non-blocking.
 */
export async function openChannel(): Promise<ChannelEnds> {
  const pair = await connectPair().catch(() => null);
  if (pair === null) return { childEnd: "pipe", take: takePipe };
  return {
    childEnd: pair.theirs,
    take: () => {
      pair.theirs.destroy();
      return pair.ours;
    },
  };
}

/** Lets everything that comes on a channel go to the sink, from now on. */
export function readInto(channel: Duplex, sink: ByteSink): void {
  for (let chunk = channel.read() as Buffer | null; chunk !== null; chunk = channel.read() as Buffer | null)
    sink.push(chunk);
  const direct = sinks.get(channel);
  if (direct === undefined) channel.on("data", (chunk: Buffer) => sink.push(chunk));
  else direct(sink);
}

async function connectPair(): Promise<{ ours: Socket; theirs: Socket }> {
  const folder = await mkdtemp(join(tmpdir(), "sandpool-channel-"));
  const server = createServer({ pauseOnConnect: true });
  try {
    const path = join(folder, "c");
    server.listen(path);
    await once(server, "listening");
    const ours = connectReading(path);
    const [[theirs]] = (await Promise.all([once(server, "connection"), once(ours, "connect")])) as [[Socket], unknown];
    // An unhandled error event would end the server; whoever owns the channel adds a listener of its own.
    ours.on("error", () => undefined);
    theirs.on("error", () => undefined);
    return { ours, theirs };
  } finally {
    server.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A connection that reads into its sink's memory, or, without one, is a stream as any other. */
function connectReading(path: string): Socket {
  const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  let sink: ByteSink | null = null;
  const onread = {
    buffer: () => sink?.space() ?? scratch,
    callback: (bytes: number, memory: Uint8Array) => {
      if (sink === null) socket.push(Buffer.from(scratch.subarray(0, bytes)));
      // The read that was under way when the sink came.
      else if (memory === scratch) sink.push(scratch.subarray(0, bytes));
      else sink.took(bytes);
      return true;
    },
  };
  const socket = connect({ path, onread });
  sinks.set(socket, (given) => {
    sink = given;
  });
  return socket;
}

/**
 * Takes descriptor 3's stream away from the child process object. Left there, Node would set it flowing when the child exits
 * (`flushStdio`) and what a short program wrote would be gone before its reader is attached.
 */
function takePipe(child: ChildProcess): Duplex {
  const streams = child.stdio as unknown as (Duplex | null)[];
  const channel = streams[3] as Duplex;
  streams[3] = null;
  channel.on("error", () => undefined);
  return channel;
}
