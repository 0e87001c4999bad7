import { Sandpool } from "sandpool";
import { EXIT } from "../../output/failure.ts";
import { type Cell, type Output, safe } from "../../output/output.ts";

/** What runs in a machine, what its programs left behind, and what ended in the last ten minutes. */
export async function listExecs(output: Output, machine: string): Promise<number> {
  const execs = await new Sandpool().machines.listExecs(machine);
  if (output.json) output.document({ execs });
  else if (execs.length === 0) output.line("Nothing runs.");
  else {
    const rows = execs.map((exec): Cell[] => [
      exec.id,
      exec.state,
      exec.pid,
      exec.signal ?? exec.exit_code,
      exec.started_at,
      exec.argv.join(" "),
    ]);
    output.table(["ID", "STATE", "PID", "ENDED", "STARTED", "COMMAND"], rows);
  }
  return EXIT.ok;
}

/** Sends a signal to an exec. */
export async function killExec(
  output: Output,
  machine: string,
  exec: string,
  { signal, leader }: { signal: string; leader: boolean },
): Promise<number> {
  const signalled = await new Sandpool().machines.signalExec(machine, exec, signal, { tree: !leader });
  if (output.json) output.document({ signalled });
  else output.line(`Sent ${signal} to ${signalled} ${signalled === 1 ? "process" : "processes"} of ${safe(exec)}.`);
  return EXIT.ok;
}
