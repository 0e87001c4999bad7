import type { ExecState } from "../contract.ts";
import type { MachineSession } from "../session/session.ts";

/** An exec as the agent lists it. */
export interface ListedExec extends ExecState {
  tty: boolean;
}

/** Running, detached and lately finished execs, oldest first. */
export async function listExecs(session: MachineSession): Promise<ListedExec[]> {
  const { head } = await session.ask({ op: "exec.list" });
  return (head.execs as Record<string, unknown>[]).map((exec) => ({
    id: String(exec.id),
    state: exec.state as ExecState["state"],
    argv: exec.argv as string[],
    pid: (exec.pid as number | null) ?? null,
    startedAt: exec.started_at as number,
    exitCode: (exec.exit_code as number | null) ?? null,
    signal: (exec.signal as string | null) ?? null,
    tty: exec.tty === true,
  }));
}
