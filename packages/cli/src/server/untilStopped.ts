import type { Output } from "../output/output.ts";

export type StopCause = "SIGINT" | "SIGTERM" | "SIGHUP";

const FORCED_EXIT_CODE = 130;

/**
 * Resolves at the first SIGINT, SIGTERM or SIGHUP (a closed terminal). A second one ends the process at once: the agents see their channel close and kill
 * everything, and the next start removes what is left on disk.
 */
export function untilStopped(output: Output): Promise<StopCause> {
  return new Promise((resolve) => {
    let asked = false;
    const stop = (signal: StopCause): void => {
      if (asked) {
        output.note(`Forced by a second ${signal}; the next start cleans up what is left.`);
        process.exit(FORCED_EXIT_CODE);
      }
      asked = true;
      resolve(signal);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stop(signal));
  });
}
