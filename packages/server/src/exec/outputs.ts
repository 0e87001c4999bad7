import type { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { LiveMachine } from "@sandpool/worker";

/** One of an exec's outputs from its first byte on. */
export interface OutputSource {
  live: LiveMachine;
  id: string;
  kind: "stdout" | "stderr";
  /** Null: there is none, as of a terminal's `stderr`. */
  stream: Readable | null;
  /** It stands at the program's first byte, with no hole in what it has. */
  isWhole: boolean;
  gone: AbortSignal;
}

/**
 * An exec's output, also where the connection to the machine breaks on the way: what the machine kept is asked for again and told on from
 * where it stood. Where too much was written meanwhile to be kept, the break is the output's error: nothing is ever left out unsaid.
 */
export async function* readOutput({ live, id, kind, stream, isWhole, gone }: OutputSource): AsyncGenerator<Buffer> {
  let current = stream;
  let toldBytes = 0;
  let skipBytes = 0;
  const stop = (): void => {
    current?.destroy();
  };
  gone.addEventListener("abort", stop);
  try {
    while (current !== null) {
      gone.throwIfAborted();
      try {
        for await (const chunk of current as AsyncIterable<Buffer>) {
          const fresh = chunk.subarray(Math.min(skipBytes, chunk.length));
          skipBytes -= chunk.length - fresh.length;
          toldBytes += fresh.length;
          if (fresh.length > 0) yield fresh;
        }
        return;
      } catch (error) {
        if (!isWhole || gone.aborted || !isBroken(error)) throw error;
        current = await takeUp(live, id, kind, error);
        skipBytes = toldBytes;
      }
    }
  } finally {
    gone.removeEventListener("abort", stop);
    current?.destroy();
  }
}

async function takeUp(live: LiveMachine, id: string, kind: "stdout" | "stderr", error: unknown) {
  const attached = await live.attachExec(id, "start");
  attached[kind === "stdout" ? "stderr" : "stdout"]?.destroy();
  if (attached.dropped[kind] === 0) return attached[kind];
  attached[kind]?.destroy();
  throw error;
}

function isBroken(error: unknown): boolean {
  return error instanceof SandpoolError && error.code === "agent_failed" && error.details.operation === "stream";
}
