import { formatSize } from "@sandpool/protocol";
import { type Machine, type MachineOptions, type MachineSizeInput, Sandpool } from "sandpool";
import { EXIT, UsageError } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";
import { ProgressBar } from "../../output/progress.ts";

export interface NewOptions {
  image?: string;
  size?: MachineSizeInput;
  driver?: string;
  isolated?: boolean;
  egress?: string[];
  env?: Record<string, string>;
  label?: Record<string, string>;
  lifetime?: number;
  count?: number;
}

const PHASES = {
  image: "finding the image",
  prepare: "preparing",
  disk: "reading the disk",
  network: "setting up the network",
  start: "starting",
} as const;

/** Makes a machine, or several; with several the exit code is 1 when one of them failed. */
export async function newMachine(output: Output, name: string | undefined, options: NewOptions): Promise<number> {
  const bar = new ProgressBar(output);
  const request = toRequest(name, options, bar);
  const { machines } = new Sandpool();
  try {
    if (options.count === undefined || options.count === 1) return report(output, await machines.create(request), bar);
    const fates = await machines.createMany(options.count, request);
    bar.stop();
    if (output.json) output.document({ machines: fates });
    else for (const fate of fates) output.line("machine" in fate ? summary(fate.machine) : failure(fate.error));
    return fates.every((fate) => "machine" in fate) ? EXIT.ok : EXIT.failed;
  } finally {
    bar.stop();
  }
}

function toRequest(name: string | undefined, options: NewOptions, bar: ProgressBar): MachineOptions {
  const { image, size, driver, isolated, egress, env, label, lifetime } = options;
  if (driver !== undefined && driver !== "gvisor" && driver !== "namespace") {
    throw new UsageError(
      `--driver is ${JSON.stringify(driver)}; expected gvisor or namespace.`,
      `Leave it out to take what this host has; "sandpool doctor" tells.`,
    );
  }
  return {
    name,
    image,
    size,
    driver,
    isolated,
    egress,
    environment: env,
    labels: label,
    lifetimeSeconds: lifetime,
    onProgress: ({ phase, done, total }) => bar.show(PHASES[phase] ?? safe(phase), done, total),
  };
}

function report(output: Output, machine: Machine, bar: ProgressBar): number {
  bar.stop();
  if (output.json) output.document(machine);
  else output.line(summary(machine));
  for (const warning of machine.warnings) output.note(`warning: ${safe(warning)}`);
  return EXIT.ok;
}

function summary({ name, id, state, size, image, driver }: Machine): string {
  const figures = `${size.vcpu} vCPU, ${formatSize(size.memory)} memory, ${formatSize(size.disk)} disk`;
  return `${safe(name)} (${safe(id)}) is ${safe(state)}: ${figures}, image ${safe(image)}, ${safe(driver)}.`;
}

function failure({ code, message, hint }: { code: string; message: string; hint?: string | undefined }): string {
  return `failed: ${safe(message)} (${safe(code)})${hint === undefined ? "" : ` do: ${safe(hint)}`}`;
}
