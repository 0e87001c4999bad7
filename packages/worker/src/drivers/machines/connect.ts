import type { ChildProcess } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { encodeFrame, FRAME_HEADER_BYTES, FRAME_KINDS, frameChecksum, hasMagic } from "@sandpool/protocol";
import { sleep } from "../../host/concurrency.ts";
import { DriverError } from "../driver.ts";
import type { MachineExit, ShimStatus } from "../machine.ts";
import type { MachineFolders } from "./folders.ts";
import { readJson } from "./record.ts";
import { shimFailure, shimPid } from "./shim.ts";

const RETRY_MS = 5;

interface SmallFrame {
  kind: number;
  sequence: number;
  head: Record<string, unknown>;
}

/** A connection while it is being set up: one frame at a time, and never a byte beyond, so that another reader can go on. */
export class ShimTalk {
  readonly socket: Socket;
  #bytes = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => undefined);
  }

  /** Sends a request and returns the head of its reply, past every event; `onEvent` may end the wait by throwing. */
  async ask(
    head: object,
    signal: AbortSignal,
    onEvent: (head: Record<string, unknown>) => void,
  ): Promise<Record<string, unknown>> {
    const sequence = randomInt(1, 2 ** 32 - 1);
    for (const chunk of encodeFrame(FRAME_KINDS.request, sequence, head)) this.socket.write(chunk);
    for (;;) {
      const frame = await this.next(signal);
      if (frame.kind === FRAME_KINDS.event) onEvent(frame.head);
      if (frame.kind === FRAME_KINDS.reply && frame.sequence === sequence) return frame.head;
    }
  }

  /** @throws when the connection ends, or the signal aborts, before a whole frame came */
  async next(signal: AbortSignal): Promise<SmallFrame> {
    for (;;) {
      const frame = this.#take();
      if (frame !== null) return frame;
      signal.throwIfAborted();
      const chunk = this.socket.read() as Buffer | null;
      if (chunk !== null) this.#bytes = Buffer.concat([this.#bytes, chunk]);
      else if (this.socket.readableEnded || this.socket.destroyed) throw new Error("the shim ended the connection");
      else await this.#change(signal);
    }
  }

  /** Until something came, or nothing more can, or the signal aborts, which the caller looks at. */
  async #change(signal: AbortSignal): Promise<void> {
    const scope = new AbortController();
    const options = { signal: AbortSignal.any([signal, scope.signal]) };
    const news = ["readable", "close", "end"].map((name) => once(this.socket, name, options).catch(() => undefined));
    await Promise.race(news).finally(() => scope.abort());
  }

  /** Ends the set-up: what was read beyond the last frame goes back. */
  release(): Socket {
    if (this.#bytes.length > 0) this.socket.unshift(this.#bytes);
    this.#bytes = Buffer.alloc(0);
    return this.socket;
  }

  #take(): SmallFrame | null {
    const bytes = this.#bytes;
    if (bytes.length < FRAME_HEADER_BYTES) return null;
    const headLength = bytes.readUInt32LE(12);
    const end = FRAME_HEADER_BYTES + headLength + bytes.readUInt32LE(16);
    if (!hasMagic(bytes, 0)) throw new Error("the shim sent something that is no frame");
    if (bytes.length < end) return null;
    if (frameChecksum(bytes, headLength) !== bytes.readUInt32LE(20)) throw new Error("the shim sent a damaged frame");
    this.#bytes = bytes.subarray(end);
    const head = JSON.parse(bytes.toString("utf8", FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + headLength));
    return { kind: bytes.readUInt16LE(8), sequence: bytes.readUInt32LE(4), head };
  }
}

/**
 * Connects to a machine's shim, which may only just be starting (`child`).
 * @returns how the machine ended, where it has
 */
export async function connectShim(
  folders: MachineFolders,
  child: ChildProcess | null,
  signal: AbortSignal,
): Promise<{ talk: ShimTalk; status: ShimStatus } | MachineExit> {
  for (;;) {
    signal.throwIfAborted();
    const socket = await tryConnect(`${folders.folder}/shim.sock`);
    if (socket !== null) {
      const talk = new ShimTalk(socket);
      const first = await talk.next(signal).catch((error: Error) => {
        socket.destroy();
        if (signal.aborted) throw error;
        return null;
      });
      if (first !== null) return { talk, status: first.head as unknown as ShimStatus };
    }
    const exit = await readExit(folders);
    if (exit !== null) return exit;
    const alive =
      child === null ? (await shimPid(folders)) !== null : child.exitCode === null && child.signalCode === null;
    if (!alive) throw shimFailure(folders, child);
    await sleep(RETRY_MS);
  }
}

/** How the machine ended; null while it runs, or never began. */
export async function readExit({ folder }: MachineFolders): Promise<MachineExit | null> {
  return await readJson<MachineExit>(`${folder}/exit.json`);
}

export function isExit(value: object): value is MachineExit {
  return "at" in value;
}

/** @throws when the machine ended instead */
export async function waitUntilRunning(talk: ShimTalk, status: ShimStatus, signal: AbortSignal): Promise<ShimStatus> {
  return await waitPast(["starting", "waiting", "created", "restoring"], talk, status, signal);
}

/** Until its container waits for a state. @throws when the machine ended instead */
export async function waitUntilCreated(talk: ShimTalk, status: ShimStatus, signal: AbortSignal): Promise<ShimStatus> {
  return await waitPast(["starting", "waiting"], talk, status, signal);
}

async function waitPast(
  states: readonly ShimStatus["state"][],
  talk: ShimTalk,
  status: ShimStatus,
  signal: AbortSignal,
): Promise<ShimStatus> {
  let now = status;
  while (states.includes(now.state)) {
    const { head } = await talk.next(signal);
    refuseExit(head);
    if (head.event === "shim") now = head as unknown as ShimStatus;
  }
  if (now.exit !== null) throw endedEarly(now.exit);
  return now;
}

/** For `ask`: the machine's end is no answer. */
export function refuseExit(head: Record<string, unknown>): void {
  if (head.event === "exit") throw endedEarly(head as unknown as MachineExit);
}

export function endedEarly(exit: MachineExit): DriverError {
  const how = exit.signal === null ? `code ${exit.code ?? "unknown"}` : `signal ${exit.signal}`;
  return new DriverError(
    "sandbox_start_failed",
    exit.started
      ? `the machine ended before its agent answered (${how})`
      : `the machine could not be started: ${exit.stderr?.trim() || "the runtime said nothing"}`,
    "run `sandpool doctor`; if it finds nothing, the message above is the runtime's own",
    { exit },
  );
}

async function tryConnect(path: string): Promise<Socket | null> {
  const socket = connect({ path });
  try {
    await once(socket, "connect");
    return socket;
  } catch {
    socket.destroy();
    return null;
  }
}
