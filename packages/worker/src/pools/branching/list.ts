import type { StateList } from "@sandpool/protocol";
import type { PoolCore } from "../core.ts";
import { stateBytesMax, statesMax } from "../plan.ts";
import type { RunningShard } from "../shards/start.ts";
import { describeState, type StateRecord } from "./states.ts";

/** What an agent's status says of a state. */
interface StateStatus {
  slot: number;
  bytes?: number | null;
  pss_bytes?: number | null;
}

/** Every saved state, oldest first; with `memory` also what each has. Waits for a branching batch that runs. */
export async function listStates(core: PoolCore, memory: boolean): Promise<StateList> {
  await core.states.quiet();
  const sampled = memory ? await sampleStates(core) : null;
  const states = core.states.all.map((record) => {
    const described = describeState(record);
    return sampled === null ? described : { ...described, pss_bytes: bytesOf(sampled, record) };
  });
  return { states, limits: { states: statesMax, bytes: stateBytesMax } };
}

/** The states in an agent's status. */
export function readStateStatus(states: unknown): StateStatus[] {
  return Array.isArray(states) ? (states as StateStatus[]) : [];
}

type Sampled = Map<RunningShard, Map<number, StateStatus>>;

async function sampleStates(core: PoolCore): Promise<Sampled> {
  const sampled: Sampled = new Map();
  const holders = new Set(core.states.all.map(({ running }) => running));
  const asked = core.shards.map(async ({ running }) => {
    if (running === null || !holders.has(running)) return;
    const reply = await running.agent.ask({ op: "status", memory: true }).catch(() => null);
    const states = readStateStatus(reply?.head.states);
    sampled.set(running, new Map(states.map((state) => [state.slot, state])));
  });
  await Promise.all(asked);
  return sampled;
}

/** A state that is bytes has those in its agent's memory. */
function bytesOf(sampled: Sampled, { running, slot, way }: StateRecord): number | null {
  const status = sampled.get(running)?.get(slot);
  return (way === "state" ? status?.bytes : status?.pss_bytes) ?? null;
}
