import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecRequest, ExecStarted, ExecOutcome as WireOutcome } from "@sandpool/protocol";
import { ConnectionError, SandpoolError } from "../../errors.ts";
import type { Transport } from "../../http/transport.ts";
import { requestJson } from "../../values/json.ts";

// With a key the server keeps a foreground exec that long for a client that is gone.
const JOIN_PATIENCE_MS = 60_000;
const JOIN_PAUSE_MS = 500;
const STANDING_MS = 2000;
const UNREACHED_RETRIES = 2;

/**
 * Runs a program to its end. After a broken connection the same request, known by its key, joins the exec that it began: also one
 * that has ended meanwhile, or whose server was restarted.
 */
export async function runExec(
  transport: Transport,
  path: string,
  request: ExecRequest,
  signal: AbortSignal | undefined,
): Promise<WireOutcome> {
  return (await postUntilAnswered(transport, `${path}/exec`, request, signal)) as WireOutcome;
}

/** Starts a program that runs on by itself; its output is kept. */
export async function startDetached(
  transport: Transport,
  path: string,
  request: ExecRequest,
  signal: AbortSignal | undefined,
): Promise<ExecStarted> {
  const detached = { ...request, detach: true };
  return (await postUntilAnswered(transport, `${path}/exec`, detached, signal)) as ExecStarted;
}

async function postUntilAnswered(
  transport: Transport,
  path: string,
  request: ExecRequest,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  // A program may take hours without a word; only a broken connection ends the wait.
  const headers = { "idempotency-key": randomUUID() };
  const options = { body: requestJson(request), headers, signal, timeoutMs: 0, retries: UNREACHED_RETRIES };
  let brokenAt: number | null = null;
  for (;;) {
    const sentAt = performance.now();
    try {
      return await transport.json("POST", path, options);
    } catch (error) {
      if (signal?.aborted) await end(transport, path, headers);
      const broken = isBroken(error);
      if (broken === null) throw error;
      const now = performance.now();
      // Each connection that stood for a while begins the wait anew.
      if (broken.mayHaveArrived && (brokenAt === null || now - sentAt > STANDING_MS)) brokenAt = now;
      if (brokenAt === null || now - brokenAt > JOIN_PATIENCE_MS) throw error;
      await sleep(JOIN_PAUSE_MS, undefined, signal && { signal });
    }
  }
}

/** Ends what a key began: without an answer its id is not known. */
async function end(transport: Transport, path: string, headers: Readonly<Record<string, string>>): Promise<void> {
  // The caller learns of its abort either way, and the server ends what nobody comes back for.
  await transport.json("DELETE", path, { headers, retries: UNREACHED_RETRIES }).catch(() => undefined);
}

function isBroken(error: unknown): { mayHaveArrived: boolean } | null {
  if (error instanceof ConnectionError) return error;
  // A server that stops lets go of the machine, which lives on; the next one knows the exec.
  return error instanceof SandpoolError && error.code === "server_closing" ? { mayHaveArrived: true } : null;
}
