import { setTimeout as sleep } from "node:timers/promises";
import { CommandFailure, EXIT } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";
import { withSpinner } from "../output/progress.ts";
import { findHolder } from "../server/holder.ts";
import { runningMachines } from "../server/machinesOf.ts";
import { startServer } from "../server/start.ts";

const WAIT_LIMIT_MS = 60_000;
/** Disks of machines are saved, which may be large. */
const WAIT_WITH_MACHINES_MS = 30 * 60_000;
const POLL_MS = 50;

export interface DownOptions {
  data: string;
  keepMachines: boolean;
}

interface Ended {
  pid: number | null;
  /** Names of machines that run on. */
  left: string[];
  /** Machines that ran although no server did, and were stopped. */
  orphans: number;
}

/**
 * Stops the server that holds a data folder, and its machines, their disks saved; waits until it is gone. Machines of a server that
 * is gone are stopped too. Nothing running is no failure.
 */
export async function down(output: Output, { data, keepMachines }: DownOptions): Promise<number> {
  const pid = findHolder(data);
  if (pid === null)
    return report(output, data, keepMachines, keepMachines ? none(data) : await stopOrphans(output, data));
  signalServer(pid, keepMachines ? "SIGTERM" : "SIGUSR2");
  const limitMs = keepMachines ? WAIT_LIMIT_MS : WAIT_WITH_MACHINES_MS;
  await withSpinner(output, `stopping the server (process ${pid})`, () => waitUntilFree(data, pid, limitMs));
  return report(output, data, keepMachines, { ...none(data), pid });
}

function none(data: string): Ended {
  return { pid: null, left: runningMachines(data), orphans: 0 };
}

/** A server of this process takes them over and stops them, as the one that is gone would have. */
async function stopOrphans(output: Output, data: string): Promise<Ended> {
  const orphans = runningMachines(data);
  if (orphans.length === 0) return none(data);
  const { createLogger } = await import("@sandpool/server");
  const logger = createLogger({ level: "warn", destination: process.stderr });
  const options = { dataDir: data, listen: "127.0.0.1:0", insecure: false, tls: null, allowUnisolated: false };
  await withSpinner(output, `stopping ${orphans.length} machines that no server holds`, async () => {
    const server = await startServer({ ...options, logger, credentialsFile: null });
    await server.settled();
    await server.stop({ stopMachines: true });
  });
  const ended = none(data);
  return { ...ended, orphans: orphans.length - ended.left.length };
}

function signalServer(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ESRCH") return;
    throw new CommandFailure(
      "not_permitted",
      `Process ${pid} holds the data folder but belongs to another account.`,
      `Run "sandpool down" as the account that started the server (with sudo if it was root).`,
      cause,
    );
  }
}

async function waitUntilFree(dataDir: string, pid: number, limitMs: number): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (findHolder(dataDir) === pid) {
    if (performance.now() > deadline) {
      throw new CommandFailure(
        "deadline_passed",
        `The server (process ${pid}) has not stopped within ${limitMs / 1000} s.`,
        `Look at its log; "kill -TERM ${pid}" once more forces it.`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** A machine that should have stopped and runs on is a failure: its disk could not be saved, and nothing of it was thrown away. */
function report(output: Output, dataDir: string, keepMachines: boolean, { pid, left, orphans }: Ended): number {
  const isWhole = keepMachines || left.length === 0;
  if (output.json) {
    output.document({ stopped: pid !== null, pid, data: dataDir, machines_running: left, machines_orphaned: orphans });
    return isWhole ? EXIT.ok : EXIT.failed;
  }
  output.line(whatEnded(dataDir, pid, orphans));
  const names = left.map(safe).join(", ");
  if (isWhole && left.length > 0) output.line(`Machines keep running: ${names}.`);
  if (isWhole) return EXIT.ok;
  throw new CommandFailure(
    "machine_state",
    `Machines could not be stopped and keep running: ${names}.`,
    "The server's log says why. Start it again to copy out what they hold; deleting them works in any state.",
  );
}

function whatEnded(dataDir: string, pid: number | null, orphans: number): string {
  if (pid !== null) return `Stopped the server (process ${pid}) of ${safe(dataDir)}.`;
  if (orphans > 0) return `No server holds ${safe(dataDir)}; its ${orphans} machines were stopped.`;
  return `No server holds ${safe(dataDir)}; nothing to stop. Another folder: --data DIR.`;
}
