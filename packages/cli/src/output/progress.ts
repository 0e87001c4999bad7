import { Presets, SingleBar } from "cli-progress";
import ora from "ora";
import type { PoolProgress } from "sandpool";
import type { Output } from "./output.ts";

const PHASES: Readonly<Record<PoolProgress["phase"], string>> = {
  upload: "uploading the environment",
  layer: "installing dependencies",
  template: "starting the template",
  start: "starting environments",
  reset: "first reset",
};

/** Runs work under a spinner on standard error; silent without a terminal and with `--json`. */
export async function withSpinner<Result>(output: Output, text: string, work: () => Promise<Result>): Promise<Result> {
  // A terminal that does not say its width would have ora clear lines without end.
  const isDrawn = output.interactive && process.stderr.columns > 0;
  const spinner = ora({ text, isEnabled: isDrawn, isSilent: !isDrawn, discardStdin: false }).start();
  try {
    return await work();
  } finally {
    spinner.stop();
  }
}

/** A progress bar on standard error for the phases of a creation, then for steps; draws nothing without a terminal. */
export class ProgressBar {
  private readonly bar: SingleBar | null;
  private started = false;

  constructor(output: Output) {
    const options = {
      format: "{bar} {percentage}% {label}",
      hideCursor: true,
      clearOnComplete: true,
      stream: process.stderr,
    };
    this.bar = output.interactive ? new SingleBar(options, Presets.shades_classic) : null;
  }

  creation(progress: PoolProgress): void {
    this.show(PHASES[progress.phase], progress.done, progress.total);
  }

  show(label: string, done: number, total: number): void {
    if (this.bar === null) return;
    if (!this.started) this.bar.start(total, done, { label });
    else {
      this.bar.setTotal(total);
      this.bar.update(done, { label });
    }
    this.started = true;
  }

  stop(): void {
    this.bar?.stop();
  }
}
