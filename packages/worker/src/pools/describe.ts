import type { PoolDescription } from "@sandpool/protocol";
import type { PoolCore } from "./core.ts";
import { leaseEnd } from "./lease.ts";
import { stateBytesMax, statesMax } from "./plan.ts";
import type { StartReport } from "./start.ts";

export interface DescribedStart extends StartReport {
  layerMs: number;
  totalMs: number;
  warnings: readonly string[];
}

/** The pool as the API shows it; the server adds the endpoint. */
export function describePool(core: PoolCore, start: DescribedStart, state: PoolDescription["state"]): PoolDescription {
  const { plan } = core;
  const { request, limits } = plan;
  const { hello } = start;
  return {
    id: plan.id,
    name: request.name,
    n: request.n,
    state,
    seed: core.seed,
    autoreset: core.autoreset,
    seeds: request.seeds,
    entry: request.entry,
    isolation: plan.driver.name,
    shards: plan.ranges.length,
    packing: core.packing,
    vector: core.vector,
    start: {
      way: start.way,
      reason: start.reason,
      timing: roundAll({ ...start.timing, layer_ms: start.layerMs, total_ms: start.totalMs }),
    },
    layout: core.layout,
    features: Array.isArray(hello.features) ? hello.features.map(String) : [],
    observation_space: hello.observation_space ?? null,
    action_space: hello.action_space ?? null,
    metadata: hello.metadata ?? {},
    render_mode: hello.render_mode ?? null,
    spec: hello.spec ?? null,
    limits: {
      n_max: limits.rowsMax,
      request_bytes: limits.requestBytes,
      reply_bytes: limits.replyBytes,
      row_bytes: Math.min(limits.messageBytes, Math.floor(limits.replyBytes / request.n)),
      memory_bytes: plan.memoryBytes,
      memory_method: plan.probe.rowMemory,
      workspace_bytes: plan.workspaceBytes,
      workspace_inodes: limits.workspaceInodes,
      processes: limits.processes,
      states: statesMax,
      states_bytes: stateBytesMax,
      step_timeout: request.step_timeout,
      reset_timeout: request.reset_timeout,
      start_timeout: request.start_timeout,
      call_timeout: request.call_timeout,
    },
    lease: { seconds: request.lease, expires_at: leaseEnd(core).toISOString() },
    warnings: [...start.warnings],
    next_seq: core.turn.nextSeq,
  };
}

function roundAll(timing: PoolDescription["start"]["timing"]): PoolDescription["start"]["timing"] {
  const rounded = Object.entries(timing).map(([name, ms]) => [name, Math.round(ms * 1000) / 1000]);
  return Object.fromEntries(rounded) as PoolDescription["start"]["timing"];
}
