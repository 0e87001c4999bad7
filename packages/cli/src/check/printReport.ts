import { type Output, safe, safeLines } from "../output/output.ts";
import type { CheckReport, Finding, Verdict } from "./findings.ts";

/** The report for people: one line a check, what to do under each that is not well, a verdict at the end. */
export function printReport(output: Output, report: CheckReport): void {
  const { colors } = output;
  const paint: Record<Verdict, (text: string) => string> = {
    ok: colors.green,
    failed: colors.red,
    warning: colors.yellow,
    "not checked": colors.dim,
  };
  output.line(
    `${colors.bold(safe(report.environment))} with ${report.rows} rows, up to ${report.steps} steps, seed ${report.seed}`,
  );
  output.line();
  const width = Math.max(...lines(report).map((finding) => finding.check.length));
  for (const finding of lines(report)) printFinding(output, finding, width, paint[finding.verdict]);
  output.line();
  const failed = report.findings.filter((finding) => finding.verdict === "failed").length;
  const verdict = failed === 0 ? colors.green("Nothing failed.") : colors.red(`${failed} failed.`);
  const count = (verdictName: Verdict): number =>
    report.findings.filter(({ verdict: name }) => name === verdictName).length;
  output.line(`${verdict} ${count("ok")} ok, ${count("warning")} with a warning, ${count("not checked")} not checked.`);
}

/** The findings, with the types as lines of their own. */
function lines(report: CheckReport): Finding[] {
  const { types } = report;
  if (types === null) return report.findings;
  const typeLines = Object.entries(types).map(
    ([name, detail]): Finding => ({
      check: `${name}`,
      verdict: "ok",
      detail: detail ?? "no space announced",
      advice: null,
    }),
  );
  return [...report.findings.slice(0, 1), ...typeLines, ...report.findings.slice(1)];
}

function printFinding(output: Output, finding: Finding, width: number, paint: (text: string) => string): void {
  const margin = " ".repeat(width + 15);
  const detail = safeLines(finding.detail).replaceAll("\n", `\n${margin}`);
  output.line(`${safe(finding.check).padEnd(width)}  ${paint(finding.verdict.padEnd(11))}  ${detail}`);
  if (finding.advice !== null) output.line(`${margin}${output.colors.dim("do:")} ${safe(finding.advice)}`);
}
