import type { BranchingResult } from "./branching.ts";
import type { CheckReport, Findings } from "./findings.ts";
import { describeDifference } from "./judge.ts";

const CHECK = "branching";
const WAYS = { fork: "live fork", state: "state methods" } as const;

/** @param hasInfoDifferences whether infos of the same steps differed before, without any copy */
export function judgeBranching(
  findings: Findings,
  result: BranchingResult,
  hasInfoDifferences: boolean,
): CheckReport["branching"] {
  const { way, uncopied, steps, differences, infoDifferences } = result;
  const [first] = differences;
  const [infoFirst] = infoDifferences;
  const texts = [...new Set(uncopied.map(({ text }) => text))];
  if (texts.length > 0) {
    findings.warning(
      CHECK,
      `no (${texts.slice(0, 3).join("; ")})`,
      "fork, save and restore refuse it: end its threads and child programs between steps and close its sockets, or give it get_state and set_state.",
    );
  } else if (way === null || steps === 0) {
    findings.notChecked(
      CHECK,
      "rows failed, so there was nothing to save and restore",
      "Correct the failed rows first.",
    );
  } else if (first !== undefined) {
    findings.failed(
      CHECK,
      `${WAYS[way]}, but ${describeDifference(first)}`,
      way === "fork"
        ? "What changes from one moment to the next outside the process (clocks, the system's randomness) must not decide a step."
        : "get_state must give everything that decides a later step, generators included, and set_state take all of it back.",
    );
  } else {
    const compared = steps === 1 ? "the observation" : `the ${steps - 1} steps`;
    findings.ok(CHECK, `${WAYS[way]}: after a restore ${compared} of every row came again`);
    if (infoFirst !== undefined && !hasInfoDifferences) {
      findings.warning(
        "branching of info",
        describeDifference(infoFirst),
        "Leave clocks and process ids out of info if copies must be comparable.",
      );
    }
  }
  return { way, blockers: texts, steps: Math.max(0, steps - 1), difference: first ?? null };
}
