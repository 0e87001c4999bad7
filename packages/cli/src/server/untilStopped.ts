import type { Output } from "../output/output.ts";

/** SIGUSR2 comes from `sandpool down`: it stops the machines too. */
export type StopCause = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGUSR2";

const FORCED_EXIT_CODE = 130;

/**
 * Resolves at the first SIGINT, SIGTERM, SIGHUP (a closed terminal) or SIGUSR2. A second one ends the process at once: the agents see their channel close and kill
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
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"] as const) process.on(signal, () => stop(signal));
  });
}
