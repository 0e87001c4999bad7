import { setTimeout as sleep } from "node:timers/promises";
import { CommandFailure, EXIT } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";
import { withSpinner } from "../output/progress.ts";
import { findHolder } from "../server/holder.ts";

const WAIT_LIMIT_MS = 60_000;
const POLL_MS = 50;

/** Stops the server that holds a data folder and waits until it is gone. Nothing running is no failure. */
export async function down(output: Output, options: { data: string }): Promise<number> {
  const pid = findHolder(options.data);
  if (pid === null) return report(output, options.data, null);
  signalServer(pid);
  await withSpinner(output, `stopping the server (process ${pid})`, () => waitUntilFree(options.data, pid));
  return report(output, options.data, pid);
}

function signalServer(pid: number): void {
  try {
    process.kill(pid, "SIGTERM");
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

async function waitUntilFree(dataDir: string, pid: number): Promise<void> {
  const deadline = performance.now() + WAIT_LIMIT_MS;
  while (findHolder(dataDir) === pid) {
    if (performance.now() > deadline) {
      throw new CommandFailure(
        "deadline_passed",
        `The server (process ${pid}) has not stopped within ${WAIT_LIMIT_MS / 1000} s.`,
        `Look at its log; "kill -TERM ${pid}" once more forces it.`,
      );
    }
    await sleep(POLL_MS);
  }
}

function report(output: Output, dataDir: string, pid: number | null): number {
  if (output.json) output.document({ stopped: pid !== null, pid, data: dataDir });
  else if (pid === null) output.line(`No server holds ${safe(dataDir)}; nothing to stop. Another folder: --data DIR.`);
  else output.line(`Stopped the server (process ${pid}) of ${safe(dataDir)}.`);
  return EXIT.ok;
}
