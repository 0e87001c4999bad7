import type { SandpoolError } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import type { BatchEncoding } from "../../worker.ts";
import type { StreamMessage, StreamSink } from "./contract.ts";
import { encodeEvent } from "./encode-event.ts";

/** A message that the client may not have. `result` is null for a refusal. */
interface Kept {
  result: number | null;
  message: StreamMessage;
}

/** A client that does nothing but send what is refused may not fill the memory. */
const mostRefusals = 1024;

/** The two numberings of one client: its messages and our results, which are kept until it reports them as received. */
export class Session {
  readonly name: string;
  readonly encoding: BatchEncoding;
  /** Number of the last message taken, whether accepted or refused. */
  accepted = 0;
  sink: StreamSink | null = null;
  #received = 0;
  #lastResult = 0;
  #kept: Kept[] = [];
  #refusals = 0;
  /** For each row the number of its last result. */
  readonly #resultOf = new Map<number, number>();

  constructor(name: string, encoding: BatchEncoding) {
    this.name = name;
    this.encoding = encoding;
  }

  get nextResult(): number {
    return this.#lastResult + 1;
  }

  /** Takes a connection: says where both sides are and repeats what the client does not have. */
  attach(sink: StreamSink, received: number): void {
    this.report(received);
    this.sink = sink;
    sink.send(encodeEvent({ event: "open", accepted: this.accepted, next_result: this.#received + 1 }));
    for (const { message } of [...this.#kept]) sink.send(message);
  }

  /** The client has every message up to this result. @throws `invalid_request` for a result that was never made */
  report(received: number): void {
    if (received > this.#lastResult) {
      throw fail("invalid_request", `received: ${received} was reported; the last result is ${this.#lastResult}.`, {
        hint: "Report the number of the last result message that arrived in this session.",
        details: { received, last_result: this.#lastResult },
      });
    }
    if (received <= this.#received) return;
    this.#received = received;
    const place = this.#kept.findLastIndex(({ result }) => result !== null && result <= received);
    for (const { result } of this.#kept.splice(0, place + 1)) if (result === null) this.#refusals -= 1;
  }

  /** Whether the client has not reported the row's last result, so that it may not have it. */
  isUnreported(row: number): boolean {
    return (this.#resultOf.get(row) ?? 0) > this.#received;
  }

  /** Sends and keeps the result numbered `nextResult`. */
  result(rows: readonly number[], message: StreamMessage): void {
    this.#lastResult += 1;
    for (const row of rows) this.#resultOf.set(row, this.#lastResult);
    this.#keep({ result: this.#lastResult, message });
  }

  refusal(number: number, error: SandpoolError): void {
    if (this.#refusals === mostRefusals) {
      this.#kept.splice(
        this.#kept.findIndex(({ result }) => result === null),
        1,
      );
      this.#refusals -= 1;
    }
    this.#refusals += 1;
    this.#keep({ result: null, message: encodeEvent({ event: "refused", number, ...error.toWire() }) });
  }

  #keep(kept: Kept): void {
    this.#kept.push(kept);
    this.sink?.send(kept.message);
  }
}
