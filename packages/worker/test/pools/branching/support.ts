import type { ForkRequest, RestoreRequest, SavedState } from "@sandpool/protocol";
import type { Pool } from "../../../src/index.ts";
import { BranchingAgents } from "../../fixtures/branching-agent.ts";
import { jsonActions, openTestPools, parseJson } from "../../fixtures/pool.ts";
import { ScriptedDriver } from "../../fixtures/scripted-driver.ts";

/** Pools whose agents are scripts that can branch. */
export async function openBranchingPools() {
  const driver = new ScriptedDriver();
  const agents = new BranchingAgents();
  driver.script = agents.script;
  const pools = await openTestPools(driver);
  return { driver, agents, pools };
}

export interface BranchedBatch {
  seq: number;
  obs: [number, number][];
  infos: Record<string, unknown>[];
  failed: number[];
  reseeded: (string[] | null)[];
  warnings?: string[];
}

export function raw(request: object): Buffer {
  return Buffer.from(JSON.stringify(request));
}

export async function fork(pool: Pool, request: ForkRequest): Promise<BranchedBatch> {
  return parseJson(await pool.fork(request, raw(request), "json")) as unknown as BranchedBatch;
}

export async function save(pool: Pool, seq: number, where: number[] | boolean[] | null = null): Promise<SavedState[]> {
  const request = { seq, where };
  return (parseJson(await pool.save(request, raw(request))) as unknown as { states: SavedState[] }).states;
}

export async function restore(pool: Pool, request: RestoreRequest): Promise<BranchedBatch> {
  return parseJson(await pool.restore(request, raw(request), "json")) as unknown as BranchedBatch;
}

export async function step(pool: Pool, seq: number, actions: number[]): Promise<[number, number][]> {
  return parseJson(await pool.step(jsonActions(seq, actions), "json")).obs as [number, number][];
}
