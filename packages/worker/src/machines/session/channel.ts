import { randomInt } from "node:crypto";
import type { Socket } from "node:net";
import { encodeFrame, FRAME_KINDS, type Frame, FrameReader, type SandpoolError } from "@sandpool/protocol";
import type { AgentReply } from "../../agent/channel.ts";
import { agentFailure, ConnectionLost, tooLate } from "./errors.ts";
import { Inlet } from "./inlet.ts";
import { Outlet } from "./outlet.ts";

export interface AskOptions {
  /** Null: as long as it takes. Default a minute. */
  timeoutMs?: number | null;
  /** While it says so, time does not count: the machine stands still. */
  isPaused?: () => boolean;
}

const ASK_LIMIT_MS = 60_000;
/** No reply is larger: what is kept of an exec's two outputs. */
const BODY_LIMIT_BYTES = 64 * 2 ** 20;

interface Pending {
  resolve: (reply: AgentReply) => void;
  reject: (error: Error) => void;
}

/** One connection to a machine's shim: requests by number, events, and streams with credit. Contract: docs/internals/machines.md. */
export class MachineChannel {
  /** Called for each event that is not a stream's. */
  onEvent: ((head: Record<string, unknown>) => void) | null = null;
  /** Resolves when the connection has ended, after the last frame. */
  readonly ended: Promise<void>;
  readonly #id: string;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #inlets = new Map<number, Inlet>();
  readonly #outlets = new Map<number, Outlet>();
  /** What was asked on an earlier connection must not be taken for an answer on this one. */
  #sequence = randomInt(1, 2 ** 32 - 1);
  #lastStream = 0;
  #isOpen = true;
  #drained: { promise: Promise<void>; resolve: () => void } | null = null;
  /** Why streams fail when the connection ends; the session knows. */
  readonly #explain: () => SandpoolError;

  constructor(id: string, socket: Socket, explain: () => SandpoolError) {
    this.#id = id;
    this.#socket = socket;
    this.#explain = explain;
    const reader = new FrameReader((frame) => this.#receive(frame), takeBody);
    this.ended = new Promise((resolve) => {
      const end = (): void => {
        if (this.#isOpen) this.#finish();
        resolve();
      };
      socket.on("error", end);
      socket.on("end", end);
      socket.on("close", end);
      if (socket.readableEnded || socket.destroyed) end();
    });
    socket.on("drain", () => this.#release());
    socket.on("data", (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch {
        // It does not speak the protocol; the next connection begins anew.
        socket.destroy();
      }
    });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Sends a request and waits for its reply.
   * @throws the agent's own error, `ConnectionLost`, `deadline_passed`
   */
  ask(head: Readonly<Record<string, unknown>>, options: AskOptions = {}): Promise<AgentReply> {
    const operation = String(head.op);
    const { timeoutMs = ASK_LIMIT_MS, isPaused = () => false } = options;
    return new Promise((resolve, reject) => {
      if (!this.#isOpen) return reject(new ConnectionLost(operation));
      const sequence = this.#sequence;
      this.#sequence = sequence === 2 ** 32 - 1 ? 1 : sequence + 1;
      let timer: NodeJS.Timeout | undefined;
      const watch = (): void => {
        timer = timeoutMs === null ? undefined : setTimeout(late, timeoutMs);
      };
      const late = (): void => {
        if (isPaused()) {
          watch();
          return;
        }
        this.#pending.delete(sequence);
        reject(tooLate(this.#id, operation, timeoutMs ?? 0));
      };
      watch();
      this.#pending.set(sequence, {
        resolve: (reply) => {
          clearTimeout(timer);
          if (reply.head.ok === true) resolve(reply);
          else reject(agentFailure(reply.head.error));
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#write(FRAME_KINDS.request, sequence, head);
    });
  }

  /** A stream from the machine, to be named in a request. */
  openInlet(): Inlet {
    const inlet = new Inlet(this.#nextStream(), {
      credit: (s, bytes) => this.#write(FRAME_KINDS.event, 0, { event: "credit", s, bytes }),
      cancel: (s) => {
        if (this.#inlets.delete(s)) this.#write(FRAME_KINDS.event, 0, { event: "cancel", s });
      },
    });
    if (this.#isOpen) this.#inlets.set(inlet.id, inlet);
    else inlet.finish(this.#explain());
    return inlet;
  }

  /** The request that names it was refused: the machine knows nothing of it. */
  dropInlet(inlet: Inlet, error: SandpoolError): void {
    this.#inlets.delete(inlet.id);
    inlet.finish(error);
  }

  /** A stream to the machine, to be named in a request that is sent before its first byte. */
  openOutlet(): Outlet {
    const outlet = new Outlet(this.#nextStream(), {
      data: (s, bytes) => this.#writeData(s, bytes),
      end: (s) => this.#write(FRAME_KINDS.data, 0, { s, end: true }),
      fail: (s, message) => this.#write(FRAME_KINDS.data, 0, { s, error: { code: "source_failed", message } }),
    });
    if (!this.#isOpen) outlet.close(this.#explain());
    else this.#outlets.set(outlet.id, outlet);
    outlet.whenClosed(() => this.#outlets.delete(outlet.id));
    return outlet;
  }

  /** The shim and the machine live on. */
  close(): void {
    this.#socket.destroy();
    if (this.#isOpen) this.#finish();
  }

  #nextStream(): number {
    this.#lastStream += 1;
    return this.#lastStream;
  }

  #receive(frame: Frame): void {
    if (!this.#isOpen) return;
    const { head, body } = frame;
    if (frame.kind === FRAME_KINDS.data) {
      this.#receiveData(head, body);
    } else if (frame.kind === FRAME_KINDS.reply) {
      const pending = this.#pending.get(frame.sequence);
      this.#pending.delete(frame.sequence);
      pending?.resolve({ head, body });
    } else if (frame.kind === FRAME_KINDS.event) {
      if (head.event === "credit") this.#outlets.get(head.s as number)?.addCredit(sane(head.bytes));
      else if (head.event === "cancel") this.#outlets.get(head.s as number)?.close();
      else this.onEvent?.(head);
    }
  }

  /** Data of a stream that was cancelled meanwhile is dropped. */
  #receiveData(head: Record<string, unknown>, body: Buffer): void {
    const inlet = this.#inlets.get(head.s as number);
    if (inlet === undefined) return;
    if (body.length > 0 && !inlet.deliver(body)) return;
    const error = head.error === undefined ? null : agentFailure(head.error);
    if (head.end !== true && error === null) return;
    this.#inlets.delete(inlet.id);
    inlet.finish(error ?? "whole");
  }

  #write(kind: number, sequence: number, head: object): void {
    if (!this.#isOpen) return;
    for (const chunk of encodeFrame(kind as typeof FRAME_KINDS.request, sequence, head)) this.#socket.write(chunk);
  }

  #writeData(s: number, bytes: Buffer): Promise<void> | null {
    if (!this.#isOpen) return null;
    this.#socket.cork();
    for (const chunk of encodeFrame(FRAME_KINDS.data, 0, { s }, [bytes])) this.#socket.write(chunk);
    this.#socket.uncork();
    return this.#socket.writableNeedDrain ? this.#whenDrained() : null;
  }

  #whenDrained(): Promise<void> {
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  #release(): void {
    const drained = this.#drained;
    this.#drained = null;
    drained?.resolve();
  }

  #finish(): void {
    this.#isOpen = false;
    const waiting = [...this.#pending.values()];
    const inlets = [...this.#inlets.values()];
    const outlets = [...this.#outlets.values()];
    for (const kept of [this.#pending, this.#inlets, this.#outlets]) kept.clear();
    for (const { reject } of waiting) reject(new ConnectionLost());
    for (const outlet of outlets) outlet.close(this.#explain());
    for (const inlet of inlets) inlet.finish(this.#explain());
    this.#release();
  }
}

function takeBody(bytes: number): Buffer {
  if (bytes > BODY_LIMIT_BYTES) throw new RangeError(`a frame of a machine has ${bytes} bytes`);
  return Buffer.allocUnsafe(bytes);
}

function sane(bytes: unknown): number {
  return typeof bytes === "number" && bytes > 0 && Number.isSafeInteger(bytes) ? bytes : 0;
}
