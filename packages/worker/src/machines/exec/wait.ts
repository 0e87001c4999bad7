import type { AgentReply } from "../../agent/channel.ts";
import type { ExecOutcome, KeptOutput } from "../contract.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";
import type { KernelKills } from "./kernel-kills.ts";

/**
 * Waits for the ends of execs. Those who wait for the same one share one question: the agent keeps a question until it can answer, and has
 * no word for one that nobody asks any more.
 */
export class ExecWaits {
  readonly #session: MachineSession;
  readonly #kills: KernelKills;
  readonly #asked = new Map<string, Promise<ExecOutcome>>();

  constructor(session: MachineSession, kills: KernelKills) {
    this.#session = session;
    this.#kills = kills;
  }

  /** @throws `exec_not_found`, `machine_lost`, the signal's reason */
  async wait(id: string, { collect, signal }: { collect: boolean; signal?: AbortSignal }): Promise<ExecOutcome> {
    signal?.throwIfAborted();
    const asked = this.#ask(id, collect);
    return signal === undefined ? await asked : await unlessAborted(asked, signal);
  }

  #ask(id: string, collect: boolean): Promise<ExecOutcome> {
    const key = `${id} ${collect}`;
    const running = this.#asked.get(key);
    if (running !== undefined) return running;
    const asked = this.#session
      .ask({ op: "exec.wait", id, collect }, { timeoutMs: null })
      .then((reply) => this.#kills.judge(readOutcome(reply, collect)))
      .finally(() => this.#asked.delete(key));
    // All who waited may have gone.
    asked.catch(() => undefined);
    this.#asked.set(key, asked);
    return asked;
  }
}

async function unlessAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort);
  });
  return await Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", onAbort));
}

interface Counts {
  bytes: number;
  dropped: number;
  length: number;
}

function readOutcome({ head, body }: AgentReply, collect: boolean): ExecOutcome {
  const stdout = readCounts(head.stdout, "stdout");
  const stderr = said.orNull(head.stderr, "stderr", readCounts) ?? { bytes: 0, dropped: 0, length: 0 };
  const end = stdout.length + stderr.length;
  return {
    id: said.text(head.id, "id"),
    exitCode: said.orNull(head.exit_code, "exit_code", said.integer),
    signal: said.orNull(head.signal, "signal", said.text),
    timedOut: head.timed_out === true,
    oomKilled: head.oom_killed === true,
    durationMs: said.orNull(head.duration_ms, "duration_ms", said.integer) ?? 0,
    stdout: readKept(stdout, collect ? body.subarray(0, stdout.length) : null),
    stderr: readKept(stderr, collect ? body.subarray(stdout.length, end) : null),
    left: said.list(head.left, "left", readLeft),
  };
}

function readCounts(value: unknown, name: string): Counts {
  const counts = said.object(value, name);
  const integer = (member: string): number => said.integer(counts[member], `${name}.${member}`);
  return { bytes: integer("bytes"), dropped: integer("dropped"), length: integer("length") };
}

function readLeft(value: unknown, name: string): ExecOutcome["left"][number] {
  const { pid, command } = said.object(value, name);
  return { pid: said.integer(pid, `${name}.pid`), command: said.text(command, `${name}.command`) };
}

/** Head and tail are equally long as soon as anything was dropped between them; none is there of an exec whose output was let go. */
function readKept({ bytes, dropped, length }: Counts, content: Buffer | null): KeptOutput {
  return { bytes, dropped, content, head: dropped === 0 ? length : Math.floor(length / 2) };
}
