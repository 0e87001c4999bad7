import type { PoolCounters, PoolMemory, PoolStatus, RowStatus } from "@sandpool/protocol";
import { readStateStatus } from "./branching/list.ts";
import type { PoolCore } from "./core.ts";
import { countProcesses } from "./packing/divide.ts";
import { rowError } from "./shards/failure.ts";
import type { Shard } from "./shards/shard.ts";

interface ShardStatus {
  rows: RowStatus[];
  counters: PoolCounters;
  memory: { method: string; templates: number; agents: number; states: number } | null;
}

/** Every row's state and the pool's counters; with `memory` also the PSS, which the agents sample beside the step path. */
export async function poolStatus(core: PoolCore, memory: boolean): Promise<PoolStatus> {
  const parts = await Promise.all(core.shards.map((shard) => shardStatus(shard, memory)));
  const rows = parts.flatMap((part) => part.rows);
  const sum = (name: keyof PoolCounters): number => parts.reduce((total, part) => total + part.counters[name], 0);
  return {
    rows,
    counters: { late_replies: sum("late_replies"), replacements: sum("replacements"), stragglers: sum("stragglers") },
    memory: memory ? sumMemory(parts, rows) : null,
  };
}

async function shardStatus(shard: Shard, memory: boolean): Promise<ShardStatus> {
  const { running } = shard;
  if (running === null) return downStatus(shard);
  const reply = await running.agent.ask({ op: "status", memory }).catch(() => null);
  if (reply === null) return downStatus(shard);
  const { head } = reply;
  const failure = shard.failure;
  const rows = (head.rows as RowStatus[]).map((row) => {
    const counted = { ...row, epoch: row.epoch + shard.generation, replacements: row.replacements + shard.generation };
    if (failure === null || shard.unready?.has(row.row) !== true) return counted;
    return { ...counted, state: "failed" as const, error: rowError(failure, "step", true) };
  });
  const counters = (head.counters ?? {}) as Partial<PoolCounters>;
  return {
    rows,
    counters: {
      late_replies: counters.late_replies ?? 0,
      replacements: (counters.replacements ?? 0) + shard.generation * processesOf(shard),
      stragglers: counters.stragglers ?? 0,
    },
    memory: memory
      ? {
          method: String(head.memory_method ?? "unknown"),
          templates: Number(head.template_pss_bytes ?? 0),
          agents: Number(head.agent_pss_bytes ?? 0),
          states: readStateStatus(head.states).reduce((total, state) => total + (state.pss_bytes ?? 0), 0),
        }
      : null,
  };
}

function downStatus(shard: Shard): ShardStatus {
  const { first, count } = shard.range;
  const isLost = shard.failure?.kind === "lost" && shard.restarting === null;
  const error = shard.failure === null ? null : rowError(shard.failure, "step", true);
  const rows = Array.from({ length: count }, (_, local): RowStatus => {
    const state = isLost ? "lost" : "starting";
    return {
      row: first + local,
      pid: null,
      epoch: shard.generation,
      episode: 0,
      state,
      error,
      replacements: shard.generation,
    };
  });
  return {
    rows,
    counters: { late_replies: 0, replacements: shard.generation * processesOf(shard), stragglers: 0 },
    memory: null,
  };
}

function processesOf({ range, home }: Shard): number {
  return countProcesses(range.count, home.packing.rows_per_process);
}

function sumMemory(parts: readonly ShardStatus[], rows: readonly RowStatus[]): PoolMemory {
  const sampled = parts.flatMap((part) => (part.memory === null ? [] : [part.memory]));
  return {
    method: sampled[0]?.method ?? "unknown",
    environments_pss_bytes: rows.reduce((total, row) => total + (row.pss_bytes ?? 0), 0),
    templates_pss_bytes: sampled.reduce((total, part) => total + part.templates, 0),
    agents_pss_bytes: sampled.reduce((total, part) => total + part.agents, 0),
    states_pss_bytes: sampled.reduce((total, part) => total + part.states, 0),
  };
}
