import { formatSize, MACHINE_STATES, type MachineState } from "@sandpool/protocol";
import { type Machine, Sandpool } from "sandpool";
import { EXIT, UsageError } from "../../output/failure.ts";
import { type Cell, type Output, safe } from "../../output/output.ts";

export interface ListOptions {
  label?: Record<string, string>;
  state?: string;
}

/** Your machines, and how many you may have. */
export async function listMachines(output: Output, { label = {}, state }: ListOptions): Promise<number> {
  const filter = { labels: label, ...(state !== undefined && { state: readState(state) }) };
  const list = await new Sandpool().machines.listWithQuota(filter);
  if (output.json) output.document(list);
  else if (list.machines.length === 0) output.line("No machines.");
  else {
    output.table(["NAME", "ID", "STATE", "IMAGE", "SIZE", "DRIVER", "NETWORK", "CREATED"], list.machines.map(toRow));
  }
  if (output.interactive) output.note(`${list.quota.used} of ${list.quota.limit} machines`);
  return EXIT.ok;
}

/** One machine by id or name. */
export async function machineInfo(output: Output, name: string): Promise<number> {
  const machine = await new Sandpool().machines.get(name);
  if (output.json) output.document(machine);
  else {
    for (const [title, value] of factsOf(machine))
      output.line(`${output.colors.bold(title.padEnd(13))} ${safe(value)}`);
  }
  return EXIT.ok;
}

function readState(text: string): MachineState {
  const state = MACHINE_STATES.find((candidate) => candidate === text);
  if (state !== undefined) return state;
  throw new UsageError(
    `--state is ${JSON.stringify(text)}; expected one of ${MACHINE_STATES.join(", ")}.`,
    "Leave it out to see all machines.",
  );
}

function toRow(machine: Machine): Cell[] {
  const { name, id, image, size, driver, network, created_at: createdAt } = machine;
  return [name, id, stateOf(machine), image, sizeOf(size), driver, network, createdAt];
}

function factsOf(machine: Machine): [string, Cell][] {
  const { size, egress, lease, lifetime, labels, urls } = machine;
  return [
    ["id", machine.id],
    ["name", machine.name],
    ["state", stateOf(machine)],
    ["image", machine.image],
    ["size", `${size.vcpu} vCPU, ${formatSize(size.memory)} memory, ${formatSize(size.disk)} disk`],
    ["driver", machine.driver],
    ["network", egress === null ? machine.network : `${machine.network}: ${egress.join(", ")}`],
    ["memory", machine.memory_bytes === null ? "unknown" : `${formatSize(machine.memory_bytes)} in use`],
    ["environment", machine.environment.join(", ") || null],
    ...Object.entries(labels).map(([key, text]): [string, Cell] => ["label", `${key}=${text}`]),
    ["created", machine.created_at],
    ["deleted at", machine.expires_at],
    ...(lifetime === null ? [] : [["lifetime", `${lifetime} s`] satisfies [string, Cell]]),
    ...(lease === null ? [] : [["lease", `${lease} s`] satisfies [string, Cell]]),
    ["disk saved", machine.disk_saved_at ?? "never"],
    ["disk saves", machine.disk_save_interval === 0 ? "at a stop" : `every ${machine.disk_save_interval} s`],
    ...Object.entries(urls).map(([port, url]): [string, Cell] => ["public port", `${port} ${url}`]),
    ...machine.warnings.map((warning): [string, Cell] => ["warning", warning]),
  ];
}

function stateOf({ state, reason }: Machine): string {
  return reason === null || reason === state ? state : `${state} (${reason})`;
}

function sizeOf({ vcpu, memory, disk }: Machine["size"]): string {
  return `${vcpu}/${formatSize(memory)}/${formatSize(disk)}`;
}
