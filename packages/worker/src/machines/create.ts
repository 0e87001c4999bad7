import type { SandpoolError } from "@sandpool/protocol";
import { DriverError } from "../drivers/driver.ts";
import type { MachineDriver, MachineNetwork, MachineSpec, ShimConnection } from "../drivers/machine.ts";
import { fail } from "../fail.ts";
import type { ResolvedImage } from "../images/contract.ts";
import type { ConnectedNetwork, Networks } from "../network/contract.ts";
import type { MachineCreateOptions, MachinePlan } from "./contract.ts";

/** Processes and threads of one machine. */
const PROCESSES = 4096;

export interface Created {
  connection: ShimConnection;
  network: ConnectedNetwork | null;
}

/**
 * Makes and starts a machine, step by step. Whoever calls it removes what a failure leaves.
 * @throws `driver_unavailable`, or a driver's or network's own error
 */
export async function createMachine(
  plan: MachinePlan,
  image: ResolvedImage,
  driver: MachineDriver,
  networks: Networks,
  options: MachineCreateOptions,
): Promise<Created> {
  const { signal, disk = null } = options;
  const hasNetwork = plan.network.kind !== "isolated";
  const steps = disk === null ? ["prepare", "start"] : ["prepare", "disk", "start"];
  if (hasNetwork) steps.splice(steps.length - 1, 0, "network");
  const tell = (phase: "prepare" | "disk" | "network" | "start"): void =>
    options.onProgress?.({ phase, done: steps.indexOf(phase), total: steps.length });

  if (hasNetwork) await checkNetworks(networks);
  signal.throwIfAborted();
  // Of an earlier life, or of a server that died while it made it: the saved disk is all that counts.
  if ((await driver.list()).includes(plan.id)) await driver.remove(plan.id);
  tell("prepare");
  await driver.prepare(specOf(plan, image, networks), signal);
  if (disk !== null) {
    tell("disk");
    await driver.loadDisk(plan.id, disk);
  }
  signal.throwIfAborted();
  let network: ConnectedNetwork | null = null;
  const setUp = async (found: MachineNetwork): Promise<void> => {
    tell("network");
    network = await networks.connect(plan.id, plan.network, found);
    signal.throwIfAborted();
    tell("start");
  };
  if (!hasNetwork) tell("start");
  const connection = await driver.launch(plan.id, signal, hasNetwork ? setUp : undefined);
  return { connection, network };
}

/** The image must be fit for the driver: a root file system from elsewhere is not held by every one. */
export function checkImage(image: ResolvedImage, plan: MachinePlan): void {
  const { allowed, reason } = image.drivers[plan.driver];
  if (allowed) return;
  throw fail("driver_unavailable", `The image ${image.name} cannot run under the ${plan.driver} driver: ${reason}.`, {
    hint: 'Leave "driver" out, or name one that can.',
    details: { image: image.name, driver: plan.driver, drivers: image.drivers },
  });
}

async function checkNetworks(networks: Networks): Promise<void> {
  const problem = await networks.probe();
  if (problem === null) return;
  throw noNetwork(problem);
}

function noNetwork({ reason, hint }: { reason: string; hint: string }): SandpoolError {
  return fail("driver_unavailable", `This host cannot give machines a network: ${reason}.`, {
    hint: `${hint}; or make the machine isolated`,
  });
}

function specOf(plan: MachinePlan, { image }: ResolvedImage, networks: Networks): MachineSpec {
  const { id, name, vcpu, memoryBytes, diskBytes } = plan;
  return {
    ...{ id, hostname: name, image, vcpu, memoryBytes, diskBytes, processes: PROCESSES },
    environ: { ...networks.inside(plan.network).environ, ...plan.environ },
    network: { kind: plan.network.kind === "isolated" ? "none" : "own" },
  };
}

/** An abort is told as such, whatever it made fail. */
export function causeOf(error: unknown, signal: AbortSignal): unknown {
  return signal.aborted && !(error instanceof DriverError && error.code === "sandbox_cleanup_failed")
    ? signal.reason
    : error;
}
