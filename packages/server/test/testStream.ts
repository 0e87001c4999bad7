import { SandpoolError } from "@sandpool/protocol";
import type { StreamConnection, StreamMessage, StreamOptions, StreamRequest, StreamSink } from "@sandpool/worker";

/**
 * A stream in memory for tests of the server's edge: it keeps what it is given and answers a message with its own figures. The session
 * named `taken` is another client's.
 */
export class TestStream {
  readonly opened: StreamOptions[] = [];
  readonly taken: StreamRequest[] = [];
  readonly refused: { number: number; received: number; error: SandpoolError }[] = [];
  detached = 0;
  sink: StreamSink | null = null;
  /** How large the answers are. */
  answerBytes = 0;

  open(options: StreamOptions, sink: StreamSink): StreamConnection {
    if (options.session === "taken") throw new SandpoolError("pool_busy", "another session has the stream");
    this.opened.push(options);
    this.sink = sink;
    sink.send(this.text({ event: "open", accepted: 0, next_result: 1 }));
    return {
      take: (request) => {
        if (request.number === 99) throw new SandpoolError("invalid_request", "number: received 99");
        if (request.number === 98) throw new Error("a fault with a secret path /secret");
        this.taken.push(request);
        const { number, where, op } = request;
        sink.send(this.text({ number, where, op, filler: "x".repeat(this.answerBytes) }));
      },
      refuse: (number, received, error) => {
        this.refused.push({ number, received, error });
        sink.send(this.text({ event: "refused", number, ...error.toWire() }));
      },
      detach: () => {
        this.detached += 1;
      },
    };
  }

  /** A message in two chunks, cut inside a character where there is one. */
  text(value: object, isText = true): StreamMessage {
    const bytes = Buffer.from(JSON.stringify(value));
    const summary = { steps: 2, resets: 1, stragglers: 1, failures: { timeout: 1, from_a_sandbox: 2 } };
    return { isText, chunks: [bytes.subarray(0, 7), bytes.subarray(7)], length: bytes.length, summary };
  }
}
