import type { ExecOutcome as WireOutcome } from "@sandpool/protocol";
import { failureOf } from "./failure.ts";

/** How much a program wrote to one stream, in bytes. */
export interface OutputCounts {
  written: number;
  /** The middle that was not kept. */
  dropped: number;
  /** Bytes of the kept output that stand before the dropped ones. */
  head: number;
}

/**
 * How a program ended. A failed one is a value: its reasons stand in the fields, and `check` throws where it did not succeed.
 *
 * @example
 * const { stdout } = (await sandpool.machines.exec("box", { command: "uname -a" })).check();
 */
export class ExecOutcome {
  readonly id: string;
  /** `exited`; `running` where a wait was over first; `detached` while what it left behind lives; `lost`. */
  readonly state: string;
  /** The program's own, or 128 + signal. */
  readonly exitCode: number | null;
  /** Without `SIG`. */
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly oomKilled: boolean;
  /** The middle of an output was not kept; `counts` has the figures. */
  readonly truncated: boolean;
  readonly durationMs: number;
  /** Exactly what was written; empty for a streamed exec. */
  readonly stdoutBytes: Buffer;
  readonly stderrBytes: Buffer;
  readonly counts: Readonly<{ stdout: OutputCounts; stderr: OutputCounts }>;
  /** Programs it left running. */
  readonly left: readonly Readonly<{ pid: number; command: string }>[];
  /** As the server sent it. */
  readonly wire: Readonly<Partial<WireOutcome>>;

  constructor(wire: Partial<WireOutcome> & { id: string; state: string }) {
    this.wire = wire;
    this.id = wire.id;
    this.state = wire.state;
    this.exitCode = wire.exit_code ?? null;
    this.signal = wire.signal ?? null;
    this.timedOut = wire.timed_out ?? false;
    this.oomKilled = wire.oom_killed ?? false;
    this.truncated = wire.truncated ?? false;
    this.durationMs = wire.duration_ms ?? 0;
    this.stdoutBytes = toBytes(wire.stdout);
    this.stderrBytes = toBytes(wire.stderr);
    this.counts = {
      stdout: counts(wire.stdout_bytes, wire.stdout_dropped, wire.stdout_head),
      stderr: counts(wire.stderr_bytes, wire.stderr_dropped, wire.stderr_head),
    };
    this.left = wire.left ?? [];
  }

  /** As text; what is no UTF-8 becomes U+FFFD. It comes from the machine: escape it before a terminal. */
  get stdout(): string {
    return this.stdoutBytes.toString("utf8");
  }

  get stderr(): string {
    return this.stderrBytes.toString("utf8");
  }

  /** Exit code 0, in time. */
  get ok(): boolean {
    return this.exitCode === 0 && !this.timedOut;
  }

  /** How it ended, in words. */
  get ending(): string {
    if (this.timedOut) return "was ended by its timeout";
    if (this.oomKilled) return "was killed: the machine's memory was used up";
    if (this.signal !== null) return `was ended by the signal ${this.signal}`;
    return this.exitCode === null ? `is ${this.state}` : `ended with exit code ${this.exitCode}`;
  }

  /** Itself where the exit code is 0 and no timeout ended it. @throws ExecFailedError with `outcome` otherwise */
  check(): this {
    if (this.ok) return this;
    throw failureOf(this);
  }
}

function toBytes(text: WireOutcome["stdout"]): Buffer {
  if (text === undefined) return Buffer.alloc(0);
  return typeof text === "string" ? Buffer.from(text, "utf8") : Buffer.from(text.base64, "base64");
}

function counts(written = 0, dropped = 0, head = 0): OutputCounts {
  return { written, dropped, head };
}
