import { pipeline } from "node:stream";
import type { ExecOutcome, ExecStream } from "sandpool";
import { ContentWriter } from "../../output/content.ts";
import { RawTerminal, terminalSize } from "./terminal.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const BROKEN_PIPE_CODE = 141;

export interface RelayOptions {
  /** The program has a terminal: keys go in as they are, output comes out as it is. */
  tty: boolean;
  /** Standard input goes in. */
  input: boolean;
  /** What a first Ctrl-C, TERM or HUP does: it goes to the program, or this lets go of it. */
  signals: "forward" | "detach";
}

/** How it ended: the program's outcome, or that this command let go of it or lost its reader. */
export type Relayed = { outcome: ExecOutcome } | { detached: true } | { exitCode: number };

/** Connects a program with this process until one of them ends: input, output, signals, the size of the terminal. */
export async function relay(stream: ExecStream, options: RelayOptions): Promise<Relayed> {
  const scope = new Scope(stream, options);
  try {
    return await scope.copyOutput();
  } finally {
    scope.end();
  }
}

class Scope {
  readonly #stream: ExecStream;
  readonly #options: RelayOptions;
  readonly #handlers = new Map<NodeJS.Signals, () => void>();
  readonly #resize = (): void => this.#stream.resize(terminalSize());
  readonly #terminal: RawTerminal | null;
  #isDetached = false;
  #isAsked = false;

  constructor(stream: ExecStream, options: RelayOptions) {
    this.#stream = stream;
    this.#options = options;
    for (const signal of SIGNALS) {
      const handler = (): void => this.#signalled(signal);
      this.#handlers.set(signal, handler);
      process.on(signal, handler);
    }
    this.#terminal = options.tty && process.stdin.isTTY ? this.#openTerminal() : null;
    if (options.tty) process.stdout.on("resize", this.#resize);
    if (this.#terminal === null && options.input) pipeline(process.stdin, stream.stdin, () => undefined);
  }

  async copyOutput(): Promise<Relayed> {
    const raw = this.#options.tty;
    const writers = {
      stdout: new ContentWriter(process.stdout, { raw }),
      stderr: new ContentWriter(process.stderr, { raw }),
    };
    for await (const { kind, data } of this.#stream) {
      if (!(await writers[kind].write(data)) && kind === "stdout") return this.#readerGone();
    }
    if (this.#isDetached) return { detached: true };
    await writers.stdout.end();
    await writers.stderr.end();
    return { outcome: await this.#stream.wait() };
  }

  end(): void {
    for (const [signal, handler] of this.#handlers) process.removeListener(signal, handler);
    process.stdout.removeListener("resize", this.#resize);
    if (this.#terminal === null) process.stdin.destroy();
    else this.#terminal.restore();
    this.#stream.close();
  }

  #openTerminal(): RawTerminal {
    const { stdin } = this.#stream;
    const terminal = new RawTerminal(
      () => this.#detach(),
      (data) => stdin.write(data),
    );
    stdin.on("drain", () => terminal.resume());
    return terminal;
  }

  /** The first one is the program's; a program that does not end by it is killed by the second. */
  #signalled(signal: NodeJS.Signals): void {
    if (this.#options.signals === "detach") this.#detach();
    else if (this.#isAsked) this.#stream.kill("KILL");
    // A shell ignores TERM; the end of its terminal it does not.
    else this.#stream.kill(this.#options.tty ? "HUP" : signal.slice("SIG".length));
    this.#isAsked = true;
  }

  #detach(): void {
    this.#isDetached = true;
    this.#stream.close();
  }

  /** As a broken pipe ends a local program. */
  #readerGone(): Relayed {
    if (this.#options.signals === "forward") this.#stream.kill("KILL");
    return { exitCode: BROKEN_PIPE_CODE };
  }
}
