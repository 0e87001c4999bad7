import type { Readable } from "node:stream";
import { type AttachControl, type Attached, AttachKind, type ExecRequest, SandpoolError } from "@sandpool/protocol";
import type { WebSocket } from "ws";
import { toSandpoolError } from "../../http/sendError.ts";
import type { Identity } from "../../keys/keyring.ts";
import type { FoundMachine } from "../../machines/catalog.ts";
import { type ExecContext, execKeyOf } from "../context.ts";
import { describeOutcome } from "../outcome.ts";
import { readOutput } from "../outputs.ts";
import { execIdFor, planExec } from "../planExec.ts";
import { waitForEnd } from "../waitExec.ts";
import type { ExecInputs, InputShare } from "./inputs.ts";
import { parseClientMessage } from "./parseControl.ts";

const PING_MS = 20_000;
/** Beyond it, nothing more is read from the program until the client has taken some. */
const UNSENT_BYTES = 2 ** 20;

export interface AttachContext extends ExecContext {
  inputs: ExecInputs;
}

export interface AttachOpening {
  caller: Identity;
  found: FoundMachine;
  exec: string | null;
  from: "start" | "now";
}

interface Outputs {
  first: Attached;
  stdout: Readable | null;
  stderr: Readable | null;
}

/** One WebSocket of an exec: its output to the client, the client's bytes and signals to it. It outlives no exec, and no exec ends with it. */
export class Attachment {
  readonly #context: AttachContext;
  readonly #socket: WebSocket;
  readonly #opening: AttachOpening;
  readonly #gone = new AbortController();
  readonly #ping: NodeJS.Timeout;
  #late: NodeJS.Timeout | undefined;
  #execId: string | null;
  #input: InputShare | null = null;
  /** What came while the program was being started, in order. */
  #early: (() => void)[] | null = null;

  constructor(context: AttachContext, socket: WebSocket, opening: AttachOpening) {
    this.#context = context;
    this.#socket = socket;
    this.#opening = opening;
    this.#execId = opening.exec;
    socket.on("error", () => this.#leave());
    socket.on("close", () => this.#leave());
    socket.on("message", (data, isBinary) => this.#attempt(() => this.#receive(data as Buffer, isBinary)));
    this.#ping = setInterval(() => this.#attempt(() => this.#beat()), PING_MS);
    const { bodyIdleMs } = context.limits;
    if (opening.exec === null) this.#late = setTimeout(() => this.#end(noStart(bodyIdleMs)), bodyIdleMs);
    else this.#run(this.#attach(opening.exec));
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#isOver) return;
    if (this.#opening.caller.revoked) throw revoked();
    const message = parseClientMessage(data, isBinary, this.#context.limits.jsonDepth);
    if (this.#execId === null) {
      if (message.kind === "stdin" || !("start" in message.control)) throw startFirst();
      clearTimeout(this.#late);
      this.#execId = execIdFor(this.#opening.found.record.id, this.#opening.caller.owner, null);
      this.#run(this.#start(message.control.start, this.#execId));
      return;
    }
    const id = this.#execId;
    const act = () => (message.kind === "stdin" ? this.#feed(message.bytes) : this.#control(message.control, id));
    if (this.#early === null) act();
    else this.#early.push(act);
  }

  async #start(request: ExecRequest, id: string): Promise<Outputs> {
    const { found, caller } = this.#opening;
    if (request.detach !== undefined || request.stream !== undefined) throw notHere();
    const stdin = request.stdin === null ? "closed" : "open";
    const { start, input } = planExec(found, request, id, { attach: true, stdin });
    this.#early = [];
    this.#socket.pause();
    const started = await this.#context.journal
      .audited("machine.exec", caller, found.record.id, () => found.live.startExec(start))
      // Also where it failed: a paused socket never reads the client's answer to its close.
      .finally(() => this.#socket.resume());
    if (input !== null) this.#feed(input);
    for (const act of this.#early) this.#attempt(act);
    this.#early = null;
    const first = { id, pid: started.pid, state: "running", dropped: { stdout: 0, stderr: 0 } };
    return { first, stdout: started.stdout, stderr: started.stderr };
  }

  async #attach(id: string): Promise<Outputs> {
    const { state, dropped, stdout, stderr } = await this.#opening.found.live.attachExec(id, this.#opening.from);
    return { first: { id, pid: state.pid, state: state.state, dropped }, stdout, stderr };
  }

  #run(opening: Promise<Outputs>): void {
    this.#relay(opening).catch((thrown: unknown) => {
      if (!this.#isOver) this.#end(toSandpoolError(thrown, this.#context.logger));
    });
  }

  async #relay(opening: Promise<Outputs>): Promise<void> {
    const { first, stdout, stderr } = await opening;
    if (this.#isOver) {
      stdout?.destroy();
      stderr?.destroy();
      return;
    }
    await this.#sendControl(first);
    await Promise.all([this.#pump("stdout", stdout, first), this.#pump("stderr", stderr, first)]);
    const call = { ...this.#opening, id: first.id };
    const outcome = await waitForEnd(this.#context, call, null, this.#gone.signal);
    await this.#sendControl({ exit: describeOutcome(outcome) });
    this.#leave();
    this.#socket.close(1000);
  }

  async #pump(kind: "stdout" | "stderr", stream: Readable | null, { id, dropped }: Attached): Promise<void> {
    const { found, from } = this.#opening;
    const isWhole = from === "start" && dropped[kind] === 0;
    const source = { live: found.live, id, kind, stream, isWhole, gone: this.#gone.signal };
    for await (const chunk of readOutput(source)) await this.#send(AttachKind[kind], chunk);
  }

  #sendControl(value: object): Promise<void> {
    return this.#send(AttachKind.control, Buffer.from(JSON.stringify(value)));
  }

  /** Resolves when the client can take more, or is gone. */
  async #send(kind: number, bytes: Buffer): Promise<void> {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return;
    const sent = new Promise<void>((resolve) => {
      socket.send(Buffer.concat([Buffer.of(kind), bytes]), { binary: true }, () => resolve());
    });
    if (socket.bufferedAmount > UNSENT_BYTES) await sent;
  }

  #feed(bytes: Buffer): void {
    if (!this.#share().write(bytes, () => this.#socket.resume())) this.#socket.pause();
  }

  #share(): InputShare {
    const { found } = this.#opening;
    const id = String(this.#execId);
    this.#input ??= this.#context.inputs.join(execKeyOf({ found, id }), found.live, id, (error) => {
      if (isUsersFault(error)) this.#end(error);
    });
    return this.#input;
  }

  #control(control: AttachControl, id: string): void {
    const { live } = this.#opening.found;
    if ("start" in control) throw startedAlready(id);
    if ("end_stdin" in control) {
      this.#share().end();
      return;
    }
    const done =
      "resize" in control
        ? live.resizeExec(id, control.resize.rows, control.resize.columns)
        : live.signalExec(id, control.signal, control.tree ?? false);
    // One that has just ended takes no more, and its end is on its way.
    done.catch((error: unknown) => {
      if (isUsersFault(error)) this.#end(error);
    });
  }

  #beat(): void {
    if (this.#opening.caller.revoked) throw revoked();
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  #attempt(act: () => void): void {
    try {
      act();
    } catch (thrown) {
      this.#end(toSandpoolError(thrown, this.#context.logger));
    }
  }

  #end(error: SandpoolError): void {
    if (this.#isOver) return;
    this.#leave();
    this.#context.metrics.error(error.code);
    void this.#sendControl(error.toWire());
    this.#socket.close(1008, error.code);
  }

  get #isOver(): boolean {
    return this.#gone.signal.aborted;
  }

  #leave(): void {
    clearInterval(this.#ping);
    clearTimeout(this.#late);
    this.#input?.leave();
    // The client's answer to a close must be read.
    this.#socket.resume();
    this.#input = null;
    if (!this.#isOver) this.#gone.abort(new SandpoolError("creation_aborted", "the client went away"));
  }
}

function isUsersFault(error: unknown): error is SandpoolError {
  return error instanceof SandpoolError && error.code === "invalid_request";
}

function noStart(idleMs: number): SandpoolError {
  return new SandpoolError("request_timeout", `no start came within ${idleMs} ms`, {
    hint: 'send {"start":{…}} first',
  });
}

function startFirst(): SandpoolError {
  return new SandpoolError("invalid_request", "another message came before start", {
    hint: 'send the control message {"start":{…}} first, or open …/exec/{exec}/attach',
  });
}

function startedAlready(id: string): SandpoolError {
  return new SandpoolError("invalid_request", `a start came for exec ${id}, which is there already`, {
    hint: "open …/exec/attach for each exec",
  });
}

function notHere(): SandpoolError {
  return new SandpoolError("invalid_request", "start has detach or stream, which mean nothing in a WebSocket", {
    hint: "leave them out: the exec goes on when the WebSocket closes",
  });
}

function revoked(): SandpoolError {
  return new SandpoolError("unauthorized", "the key that opened this attachment was deleted", {
    hint: "attach again with another key of the same owner",
  });
}
