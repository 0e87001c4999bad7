import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ExecList, ExecStarted, ListedExec, RunningExec, Terminal } from "@sandpool/protocol";
import type { Transport } from "../../http/transport.ts";
import { requestJson } from "../../values/json.ts";
import { machinePath, toQuery } from "../options.ts";
import { type ExecOptions, toExecRequest, toTerminal } from "./options.ts";
import { ExecOutcome } from "./outcome.ts";
import { runExec, startDetached } from "./run.ts";
import { ExecStream } from "./stream.ts";

const SMALL_INPUT_BYTES = 8 * 1024 * 1024;
const LONGEST_WAIT_SECONDS = 60;

/** Text, bytes, or a stream of bytes of any size for standard input. */
export type Input = string | Uint8Array | Readable | AsyncIterable<Uint8Array>;

export interface RunOptions extends ExecOptions {
  /** Standard input, closed after its last byte. Without it the program finds it empty. */
  stdin?: Input | undefined;
}

export interface StreamOptions extends ExecOptions {
  /** True: `stdin` of the stream is open until you end it. Otherwise as for `exec`. */
  stdin?: true | Input | undefined;
  /** Runs it in a terminal of this size. */
  tty?: Terminal | undefined;
}

/** Runs a program to its end. */
export async function exec(transport: Transport, machine: string, options: RunOptions): Promise<ExecOutcome> {
  const { stdin, signal } = options;
  const path = machinePath(machine);
  const request = toExecRequest(options, ["stdin"]);
  if (stdin === undefined) return new ExecOutcome(await runExec(transport, path, request, signal));
  const bytes = typeof stdin === "string" ? Buffer.from(stdin, "utf8") : stdin;
  if (bytes instanceof Uint8Array && bytes.length <= SMALL_INPUT_BYTES) {
    const input = { base64: Buffer.from(bytes).toString("base64") };
    return new ExecOutcome(await runExec(transport, path, { ...request, stdin: input }, signal));
  }
  const stream = await ExecStream.open({ transport, path }, { start: request, signal });
  await using _ = stream;
  feed(stream, bytes);
  await stream.wait();
  return getExec(transport, machine, stream.id, { output: true });
}

/** Starts a program whose output is read while it runs. */
export async function streamExec(transport: Transport, machine: string, options: StreamOptions): Promise<ExecStream> {
  const { stdin, tty, signal } = options;
  const request = toExecRequest(options, ["stdin", "tty"]);
  const start = {
    ...request,
    ...(tty !== undefined && { tty: toTerminal(tty) }),
    ...(stdin === undefined && { stdin: null }),
  };
  const stream = await ExecStream.open({ transport, path: machinePath(machine) }, { start, signal });
  if (stdin !== undefined && stdin !== true) feed(stream, typeof stdin === "string" ? Buffer.from(stdin) : stdin);
  return stream;
}

/** Starts a program that runs on by itself. */
export async function startExec(transport: Transport, machine: string, options: ExecOptions): Promise<ExecStarted> {
  return startDetached(transport, machinePath(machine), toExecRequest(options), options.signal);
}

export async function listExecs(transport: Transport, machine: string): Promise<ListedExec[]> {
  return ((await transport.json("GET", machinePath(machine, "/exec"), { retries: 3 })) as ExecList).execs;
}

/** The outcome of an exec, or its state once `waitSeconds` are over. */
export async function getExec(
  transport: Transport,
  machine: string,
  id: string,
  { waitSeconds = 0, output = false }: { waitSeconds?: number; output?: boolean } = {},
): Promise<ExecOutcome> {
  const until = performance.now() + waitSeconds * 1000;
  for (;;) {
    const leftSeconds = Math.max((until - performance.now()) / 1000, 0);
    const query = toQuery({ wait: Math.min(leftSeconds, LONGEST_WAIT_SECONDS), output });
    const route = machinePath(machine, `/exec/${encodeURIComponent(id)}`) + query;
    const outcome = new ExecOutcome((await transport.json("GET", route, { retries: 3 })) as RunningExec);
    if (outcome.state !== "running" || performance.now() >= until) return outcome;
  }
}

/** How many processes got the signal. */
export async function signalExec(
  transport: Transport,
  machine: string,
  id: string,
  signal: string,
  tree: boolean,
): Promise<number> {
  const route = machinePath(machine, `/exec/${encodeURIComponent(id)}/signal`);
  const body = requestJson({ signal, tree });
  return ((await transport.json("POST", route, { body })) as { signalled: number }).signalled;
}

/** Ends an exec with its whole tree; nothing of it is left. */
export async function endExec(transport: Transport, machine: string, id: string): Promise<void> {
  await transport.json("DELETE", machinePath(machine, `/exec/${encodeURIComponent(id)}`), { retries: 3 });
}

/** Sends all of it and closes. A program that reads no more ends the feeding, not the exec. */
function feed(stream: ExecStream, input: Uint8Array | Readable | AsyncIterable<Uint8Array>): void {
  const source = input instanceof Uint8Array ? Readable.from([input]) : input;
  pipeline(source, stream.stdin).catch((error: NodeJS.ErrnoException) => {
    if (!["ERR_STREAM_PREMATURE_CLOSE", "ERR_STREAM_DESTROYED"].includes(error.code ?? "")) stream.fail(error);
  });
}
