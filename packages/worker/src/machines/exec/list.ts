import type { ExecState } from "../contract.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";

/** An exec as the agent lists it. */
export interface ListedExec extends ExecState {
  tty: boolean;
}

/** Running, detached and lately finished execs, oldest first. */
export async function listExecs(session: MachineSession): Promise<ListedExec[]> {
  const { head } = await session.ask({ op: "exec.list" });
  return said.list(head.execs, "execs", readExec);
}

const STATES = ["running", "exited", "detached", "lost"] as const;

function readExec(value: unknown, name: string): ListedExec {
  const exec = said.object(value, name);
  return {
    id: said.text(exec.id, `${name}.id`),
    state: readState(exec.state, `${name}.state`),
    argv: said.list(exec.argv, `${name}.argv`, said.text),
    pid: said.orNull(exec.pid, `${name}.pid`, said.integer),
    startedAt: said.integer(exec.started_at, `${name}.started_at`),
    exitCode: said.orNull(exec.exit_code, `${name}.exit_code`, said.integer),
    signal: said.orNull(exec.signal, `${name}.signal`, said.text),
    tty: exec.tty === true,
  };
}

export function readState(value: unknown, name: string): ExecState["state"] {
  return said.oneOf(value, name, STATES);
}
