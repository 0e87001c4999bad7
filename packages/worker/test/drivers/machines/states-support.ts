import { randomBytes } from "node:crypto";
import type { MachineSpec, Quiet, RestoredConnection } from "../../../src/drivers/machine.ts";
import { Guest, LIMIT_MS, type MachineHost, machineSpec } from "./support.ts";

/** The part of a server that talks to a source's agent while its state is written. */
export function quiet(guest: Guest, generation = 0): Quiet {
  return {
    quiesce: async () => {
      await guest.channel.ask({ op: "quiesce" });
    },
    thaw: async (away_ms) => {
      await guest.channel.ask({ op: "thaw", generation, away_ms, copy: false });
    },
  };
}

let states = 0;

/** A place for a state that nothing is at. */
export function statePlace({ dataDir }: MachineHost): string {
  states += 1;
  return `${dataDir}/states/s${states}`;
}

export interface Forked {
  guest: Guest;
  connection: RestoredConnection;
  machineId: string;
}

/** Makes a machine of a state. */
export async function restore(
  host: MachineHost,
  folder: string,
  options: { generation?: number; copy?: boolean; spec?: Partial<MachineSpec> } = {},
): Promise<Forked> {
  const { generation = 1, copy = true } = options;
  const signal = AbortSignal.timeout(LIMIT_MS);
  const spec = machineSpec(options.spec);
  await host.driver.prepareRestore(spec, signal);
  const machineId = randomBytes(16).toString("hex");
  const connection = await host.driver.restore(spec.id, folder, { generation, machineId, copy }, signal);
  return { guest: new Guest(connection), connection, machineId };
}

/** A machine that goes on from the source's instant beside it. */
export async function fork(
  host: MachineHost,
  source: Guest,
  spec: Partial<MachineSpec> = {},
  generation = 0,
): Promise<Forked> {
  const folder = statePlace(host);
  await host.driver.checkpoint(source.id, folder, quiet(source, generation), { parent: null, transient: true });
  return await restore(host, folder, { spec, generation: generation + 1 });
}
