import type { SandpoolError } from "@sandpool/protocol";
import type { ExecStart, StartedExec } from "../contract.ts";
import type { MachineChannel } from "../session/channel.ts";
import { type Inlet, readableOf } from "../session/inlet.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";

/** Both outputs together have to fit in one reply. */
const MOST_KEPT_BYTES = 31 * 2 ** 20;

/**
 * Starts a program. Its id makes it safe to ask again: over a connection that broke, and by a caller who does not know whether it began.
 * @param offered variables that the machine's network needs, where the request does not name them
 * @throws `exec_failed`, `invalid_request`
 */
export async function startExec(
  session: MachineSession,
  start: ExecStart,
  offered: Readonly<Record<string, string>>,
): Promise<StartedExec> {
  return await session.again("exec.start", async (channel) => {
    const { reply, ...streams } = await begin(channel, session, start, offered);
    const pid = said.integer(reply.pid, "pid");
    const startedAt = said.integer(reply.started_at, "started_at");
    return { id: start.id, pid, startedAt, repeated: reply.repeated === true, ...streams };
  });
}

type Streams = Pick<StartedExec, "stdout" | "stderr">;

async function begin(
  channel: MachineChannel,
  session: MachineSession,
  start: ExecStart,
  offered: Readonly<Record<string, string>>,
): Promise<Streams & { reply: Readonly<Record<string, unknown>> }> {
  const stdout = start.attach ? channel.openInlet() : null;
  const stderr = start.attach && start.tty === null ? channel.openInlet() : null;
  const head = {
    ...{ op: "exec.start", id: start.id, argv: start.argv, cwd: start.cwd, user: start.user, tty: start.tty },
    ...{
      stdin: start.stdin,
      timeout_ms: start.timeoutMs,
      keep_bytes: start.keepBytes && Math.min(start.keepBytes, MOST_KEPT_BYTES),
    },
    ...{ environ: start.environ === null ? null : { ...offered, ...start.environ } },
    ...{ stdout: stdout?.id ?? null, stderr: stderr?.id ?? null },
  };
  try {
    const { head: reply } = await channel.ask(head, { isPaused: () => session.pauses > 0 });
    // Its streams went with an earlier connection: these two are not known inside.
    if (reply.repeated === true && stdout !== null) await attach(channel, start.id, stdout, stderr);
    return { reply, ...readables(stdout, stderr) };
  } catch (error) {
    for (const inlet of [stdout, stderr]) if (inlet !== null) channel.dropInlet(inlet, error as SandpoolError);
    throw error;
  }
}

async function attach(channel: MachineChannel, id: string, stdout: Inlet, stderr: Inlet | null): Promise<void> {
  await channel.ask({ op: "exec.attach", id, stdout: stdout.id, stderr: stderr?.id ?? null, from: "start" });
}

function readables(stdout: Inlet | null, stderr: Inlet | null): Streams {
  return { stdout: stdout && readableOf(stdout), stderr: stderr && readableOf(stderr) };
}
