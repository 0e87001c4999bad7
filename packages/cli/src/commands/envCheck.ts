import { printReport } from "../check/printReport.ts";
import { runCheck } from "../check/runCheck.ts";
import { EXIT } from "../output/failure.ts";
import type { Output } from "../output/output.ts";
import { ProgressBar } from "../output/progress.ts";
import { type EmbeddedServer, startEmbedded } from "../server/embedded.ts";
import { findRunningServer } from "../server/running.ts";

export interface EnvCheckOptions {
  n: number;
  steps: number;
  seed: number;
  actions?: string;
  python?: string;
  isolation?: string;
}

/** Runs an environment in a real pool and reports what a trainer would meet; exit code 0 only if nothing failed. */
export async function envCheck(output: Output, environment: string, options: EnvCheckOptions): Promise<number> {
  const aborting = new AbortController();
  const abort = (): void => aborting.abort(new Interrupted());
  process.once("SIGINT", abort);
  process.once("SIGTERM", abort);
  const running = await findRunningServer();
  const embedded = running === null ? await startOwn(output) : null;
  const bar = new ProgressBar(output);
  try {
    const client = running ?? (embedded as EmbeddedServer).client;
    const { n, steps, seed, actions: actionsFile, python, isolation } = options;
    const report = await runCheck(
      { client, embedded: embedded !== null },
      {
        environment,
        n,
        steps,
        seed,
        actionsFile,
        pool: { ...(python !== undefined && { python }), ...(isolation !== undefined && { isolation }) },
        onCreation: (progress) => bar.creation(progress),
        onProgress: (label, done, total) => bar.show(label, done, total),
        signal: aborting.signal,
      },
    );
    bar.stop();
    if (output.json) output.document(report);
    else printReport(output, report);
    return report.ok ? EXIT.ok : EXIT.failed;
  } finally {
    bar.stop();
    await embedded?.stop();
    process.off("SIGINT", abort);
    process.off("SIGTERM", abort);
  }
}

/** Ctrl-C during a check: the pool is closed, then the command ends. */
class Interrupted extends Error {
  readonly code = "interrupted";
  readonly hint = "The pool was closed; nothing of the check is left.";

  constructor() {
    super("The check was interrupted.");
  }
}

async function startOwn(output: Output): Promise<EmbeddedServer> {
  output.note(
    `No server runs for this account, so one is started for this check only. "sandpool up" starts one that stays.`,
  );
  return startEmbedded();
}
