// A server with a machine of each policy, in the network namespace of whoever starts it. Argument: the driver. Prints what the machines said, as JSON.

import type { MachineDriver } from "../../src/drivers/machine.ts";
import type { MachineNetworkPolicy } from "../../src/machines/contract.ts";
import { createNetworks } from "../../src/network/networks.ts";
import { Guest, machineFolder, machineLeftovers, machineSpec, makeMachineHost } from "../drivers/machines/support.ts";
import { attemptProgram, type Said } from "./real-attempts.ts";

const LIMIT_MS = 60_000;
const host = makeMachineHost(process.argv[2] === "gvisor" ? "gvisor" : "namespace");
const make = () =>
  createNetworks({ dataDir: host.dataDir, allowed: [], nameServers: [{ address: "127.0.0.1", port: 5353 }] });

const said: Record<string, Said> = {};
const networks = make();
const policies: [string, MachineNetworkPolicy][] = [
  ["open", { kind: "open" }],
  ["egress", { kind: "egress", hosts: ["one.example"] }],
  ["isolated", { kind: "isolated" }],
];
const ids: Record<string, string> = {};
for (const [name, policy] of policies) {
  const own = policy.kind !== "isolated";
  const { environ } = networks.inside(policy);
  const spec = machineSpec({ network: { kind: own ? "own" : "none" }, environ });
  ids[name] = spec.id;
  await host.driver.prepare(spec, AbortSignal.timeout(LIMIT_MS));
  const connection = await host.driver.launch(spec.id, AbortSignal.timeout(LIMIT_MS), async (network) => {
    await networks.connect(spec.id, policy, network);
  });
  said[name] = await attempt(new Guest(connection));
}
await networks.close({ keep: true });

// The next start of the server.
const next = make();
const driver = host.restart();
for (const [name, policy] of policies) {
  const id = ids[name] as string;
  const network = await driver.findNetwork(id);
  if (network !== null) await next.adopt(id, policy, network);
  const adopted = await driver.adopt(id);
  if (!("socket" in adopted)) throw new Error(`machine ${id} ended: ${JSON.stringify(adopted)}`);
  said[`${name}, adopted`] = await attempt(new Guest(adopted));
}
await removeAll(driver);
const left = await machineLeftovers(host);
host.remove();
console.log(JSON.stringify({ said, left }));

async function attempt(guest: Guest): Promise<Said> {
  const text = await guest.run(["/usr/bin/python3", "-c", attemptProgram], { environ: null });
  guest.connection.socket.destroy();
  try {
    return JSON.parse(text) as Said;
  } catch {
    const logs = (await host.driver.readLogs(guest.id)).toString();
    throw new Error(`the attempts in ${machineFolder(host, guest.id)} said ${JSON.stringify(text)}; ${logs}`);
  }
}

async function removeAll(last: MachineDriver): Promise<void> {
  for (const id of Object.values(ids)) {
    await next.disconnect(id);
    await last.remove(id);
  }
  await next.close({ keep: true });
}
