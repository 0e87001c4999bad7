import type { ResetRequest, SandpoolError } from "@sandpool/protocol";
import type { BatchEncoding, StepInput } from "../../worker.ts";

/** How a client takes up a pool's stream. Contract of all of this: docs/internals/stream.md. */
export interface StreamOptions {
  /** The client's name for it, by which it comes back after a broken connection. */
  session: string;
  encoding: BatchEncoding;
  /** Number of the last result message the client has; 0 for none. */
  received: number;
}

/** Where a session's messages go while it has a connection. */
export interface StreamSink {
  send(message: StreamMessage): void;
  /** The connection has no session any more, and `error` says why. Never after `detach`. */
  end(error: SandpoolError): void;
}

/** One message to the client: the chunks one after another. */
export interface StreamMessage {
  isText: boolean;
  chunks: readonly Buffer[];
  length: number;
  /** For the metrics; events have none. */
  summary?: StreamSummary;
}

export interface StreamSummary {
  steps: number;
  resets: number;
  stragglers: number;
  /** Failed rows by kind. */
  failures: Readonly<Record<string, number>>;
}

interface StreamRequestBase {
  number: number;
  received: number;
  where: readonly number[];
  /** The message as it came; free-form members are forwarded from it. */
  rawBody: Buffer;
}

export interface StreamStepRequest extends StreamRequestBase {
  op: "step";
  actions: StepInput["actions"];
}

export interface StreamResetRequest extends StreamRequestBase {
  op: "reset";
  seed: ResetRequest["seed"] | null;
  options: unknown;
  hard: boolean;
}

export type StreamRequest = StreamStepRequest | StreamResetRequest;

/** One connection of a session. */
export interface StreamConnection {
  /**
   * Takes a message; what it asks for is sent on, or refused by an event. A number that was taken before is ignored.
   * @throws `invalid_request` where the number is not the next one
   */
  take(request: StreamRequest): void;
  /** As `take`, for a message whose form is wrong: its number is used up. */
  refuse(number: number, received: number, error: SandpoolError): void;
  /** The connection is gone; the session waits for another one. */
  detach(): void;
}
