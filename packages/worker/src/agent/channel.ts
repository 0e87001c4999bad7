import type { Duplex } from "node:stream";
import { FRAME_KINDS, type Frame, FrameReader, SandpoolError, type WireError } from "@sandpool/protocol";
import { readInto } from "../drivers/channel.ts";
import { fail } from "../fail.ts";
import { Bodies } from "./bodies.ts";
import { writeRequest } from "./write-request.ts";

export interface AgentReply {
  head: Record<string, unknown>;
  body: Buffer;
  /** To be called once nobody will read the body any more; its memory is used again. Where it is not called the collector frees it. */
  release?: () => void;
}

/** What an agent answers at any moment, it answers well within this. */
export const askTimeoutMs = 30_000;

/** Null: the channel ended before the reply. */
export type OnReply = (reply: AgentReply | null) => void;

/** The worker's end of one agent's channel: requests by number, replies, events. Contract: docs/internals/agent-channel.md. */
export class AgentChannel {
  /** Called for each event frame. */
  onEvent: ((head: Record<string, unknown>, body: Buffer) => void) | null = null;
  /** Resolves when the channel has ended, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #channel: Duplex;
  readonly #bodies = new Bodies();
  readonly #pending = new Map<number, OnReply>();
  #nextSequence = 1;
  #isOpen = true;

  constructor(channel: Duplex) {
    this.#channel = channel;
    this.ended = new Promise((resolve) => {
      const end = (): void => {
        if (!this.#isOpen) return;
        this.#isOpen = false;
        resolve();
        const waiting = [...this.#pending.values()];
        this.#pending.clear();
        for (const onReply of waiting) onReply(null);
      };
      // A reset or a broken pipe is the same news as an end of file: the agent is gone.
      channel.on("error", end);
      channel.on("end", end);
      channel.on("close", end);
      if (channel.readableEnded || channel.destroyed) end();
    });
    readInto(
      channel,
      new FrameReader(
        (frame) => this.#receive(frame),
        (bytes) => this.#bodies.take(bytes),
      ),
    );
  }

  /** Sends a request whose head is text already. `onReply` is called exactly once, never before this returns. */
  send(headText: string, body: Buffer | null, onReply: OnReply): void {
    if (!this.#isOpen) {
      queueMicrotask(() => onReply(null));
      return;
    }
    const sequence = this.#nextSequence;
    this.#nextSequence = sequence === 0xffffffff ? 1 : sequence + 1;
    this.#pending.set(sequence, onReply);
    try {
      writeRequest(this.#channel, sequence, headText, body);
    } catch (error) {
      this.#pending.delete(sequence);
      throw error;
    }
  }

  /**
   * Sends a request and waits for its reply.
   * @param timeoutMs null: as long as it takes, for callers that end the sandbox themselves
   * @throws the agent's own error, `pool_lost` when the channel ends first, `deadline_passed`
   */
  ask(
    head: Readonly<Record<string, unknown>>,
    body: Buffer | null = null,
    timeoutMs: number | null = askTimeoutMs,
  ): Promise<AgentReply> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(tooLate(String(head.op), timeoutMs ?? 0));
      const timer = timeoutMs === null ? undefined : setTimeout(late, timeoutMs);
      this.send(JSON.stringify(head), body, (reply) => {
        clearTimeout(timer);
        if (reply === null) reject(channelEnded(String(head.op)));
        else if (reply.head.ok === true) resolve(reply);
        else reject(agentError(reply));
      });
    });
  }

  /** Tells the agent, by the end of file, to kill everything and leave. */
  end(): void {
    this.#channel.destroy();
  }

  #receive(frame: Frame): void {
    if (frame.kind === FRAME_KINDS.event) {
      this.onEvent?.(frame.head, frame.body);
      return;
    }
    const onReply = this.#pending.get(frame.sequence);
    if (onReply === undefined || frame.kind !== FRAME_KINDS.reply) return;
    this.#pending.delete(frame.sequence);
    const { head, body } = frame;
    onReply({ head, body, release: () => this.#bodies.give(body) });
  }
}

/** The error in a reply's head; what is no proper error becomes `agent_failed`. */
export function agentError(reply: AgentReply): SandpoolError {
  const error = reply.head.error;
  if (typeof error !== "object" || error === null) {
    return fail("agent_failed", "The agent answered with a failure that names no error.", {
      hint: "The agent and the server may be of different versions; install both from one release.",
    });
  }
  return SandpoolError.fromWire(error as Partial<WireError>, "agent_failed");
}

export function tooLate(operation: string, timeoutMs: number): SandpoolError {
  return fail("deadline_passed", `An agent did not answer "${operation}" within ${timeoutMs / 1000} s.`, {
    hint: "The host may be overloaded or the sandbox frozen; a hard reset or a new pool replaces it.",
    details: { operation, deadline_s: timeoutMs / 1000 },
  });
}

function channelEnded(operation: string): SandpoolError {
  return fail("pool_lost", `The sandbox ended while its agent was asked for "${operation}".`, {
    hint: "See the pool's logs; the shard is restarted in the background while the pool is open.",
    details: { operation },
  });
}
