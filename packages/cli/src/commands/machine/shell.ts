import { Sandpool } from "sandpool";
import { UsageError } from "../../output/failure.ts";
import type { Output } from "../../output/output.ts";
import { report, reportOwnFailure } from "./ending.ts";
import type { ExecFlags } from "./exec.ts";
import { relay } from "./relay.ts";
import { isTerminal, terminalSize, terminalVariables } from "./terminal.ts";

const SHELL = "if [ -x /bin/bash ]; then exec /bin/bash -l; fi; exec /bin/sh -l";

/** A login shell in a terminal; its exit code is passed on. */
export async function openShell(
  output: Output,
  machine: string,
  flags: Pick<ExecFlags, "cwd" | "user" | "env">,
): Promise<number> {
  try {
    assertTerminal(output, `Use "sandpool machine exec ${machine} -- COMMAND".`);
    const stream = await new Sandpool().machines.streamExec(machine, {
      command: SHELL,
      cwd: flags.cwd,
      user: flags.user,
      environment: { ...terminalVariables(), ...flags.env },
      stdin: true,
      tty: terminalSize(),
    });
    return report(output, machine, stream.id, await relay(stream, { tty: true, input: true, signals: "forward" }));
  } catch (error) {
    return reportOwnFailure(error, output, machine);
  }
}

/** Joins a program that runs; Ctrl-C, or in a terminal three times Ctrl-], lets go of it. */
export async function attachExec(
  output: Output,
  machine: string,
  exec: string,
  { tty, now }: { tty: boolean; now: boolean },
): Promise<number> {
  try {
    if (tty) assertTerminal(output, "Leave --tty out.");
    const stream = await new Sandpool().machines.attachExec(machine, exec, { from: now ? "now" : "start" });
    const { stdout, stderr } = stream.dropped;
    if (stdout + stderr > 0) output.note(`sandpool: ${stdout + stderr} bytes of its output so far were not kept.`);
    if (tty) stream.resize(terminalSize());
    const input = tty || !process.stdin.isTTY;
    return report(output, machine, stream.id, await relay(stream, { tty, input, signals: "detach" }));
  } catch (error) {
    return reportOwnFailure(error, output, machine);
  }
}

function assertTerminal(output: Output, hint: string): void {
  if (!isTerminal() || output.json) {
    throw new UsageError("Standard input and output are no terminal, or --json was given; expected a terminal.", hint);
  }
}
