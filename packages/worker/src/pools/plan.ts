import { availableParallelism } from "node:os";
import type { CreatePoolRequest } from "@sandpool/protocol";
import type { Driver, DriverProbe, RowMemoryKind, SandboxMount, SandboxSpec } from "../drivers/driver.ts";
import type { WorkerLimits } from "./limits.ts";
import { memoryGroups } from "./packing/memory-groups.ts";
import type { RowRange } from "./rows/ranges.ts";

/** Everything about a pool that is decided before its first sandbox starts and never changes. */
export interface PoolPlan {
  id: string;
  owner: string;
  request: CreatePoolRequest;
  /** The create request as it came; agents take `config` from it. */
  rawBody: Buffer;
  ranges: readonly RowRange[];
  /** Null: chosen by the time of a step while the pool starts. */
  rowsPerProcess: number | null;
  driver: Driver;
  probe: DriverProbe;
  limits: WorkerLimits;
  memoryBytes: number;
  workspaceBytes: number;
  argv: readonly string[];
  environ: Readonly<Record<string, string>>;
  mounts: readonly SandboxMount[];
  cwd: string;
  pythonPath: string | null;
  /** Host folder for the workspaces where nothing isolates; null otherwise. */
  workspacesFolder: string | null;
  hostMemoryBytes: number;
}

/** Container ids of the template and of row 0. */
export const templateUid = 1000;
export const baseUid = 10_000;

/** What the agent itself and its template may use besides the rows. */
const agentMemoryBytes = 512 * 2 ** 20;
const agentProcesses = 64;

/** Saved states of one shard; the agents' uids are laid out for it. Contract: docs/internals/branching.md. */
export const statesMax = 1024;
/** What the states that are bytes may have together in one shard. The agents hold to it. */
export const stateBytesMax = 2 ** 30;
/** The largest workspace that is copied. */
const copiedWorkspaceBytesMax = 2 ** 30;

/**
 * The sandbox of one shard. `generation` counts its restarts, so that each sandbox has an id of its own. While the rows a process are not known
 * (null) each row has a memory group.
 */
export function shardSpec(
  plan: PoolPlan,
  index: number,
  generation: number,
  rowsPerProcess: number | null,
): SandboxSpec {
  const { count } = plan.ranges[index] as RowRange;
  const rows =
    plan.probe.rowMemory === "cgroup"
      ? {
          rowMemory: {
            limitsBytes: memoryGroups(plan, index, rowsPerProcess ?? 1),
            ...(plan.request.branching ? { statesBytes: shardMemoryBytes(plan, index) } : {}),
            templateGid: templateUid,
          },
        }
      : {};
  return {
    id: `${plan.id.replaceAll("_", "-")}-s${index}-g${generation}`,
    mounts: plan.mounts,
    environ: {},
    memoryBytes: shardMemoryBytes(plan, index),
    processes: count * plan.limits.processes + agentProcesses + (plan.request.branching ? statesMax : 0),
    network: "none",
    capabilities: "pool",
    rootImage: "host",
    ...rows,
    ...(plan.pythonPath === null ? {} : { pythonPath: plan.pythonPath }),
  };
}

/** What one shard's sandbox may use: its rows, the agent and the template. */
export function shardMemoryBytes(plan: PoolPlan, index: number): number {
  const { count } = plan.ranges[index] as RowRange;
  return Math.min(count * plan.memoryBytes + agentMemoryBytes, plan.hostMemoryBytes);
}

export interface StartHeadOptions {
  index: number;
  memoryDir: string | null;
  rowMemory: RowMemoryKind;
  isolated: boolean;
  seed: number;
  episodeOffset: number;
  firstReset: boolean;
  /** Null: told later, by `pack`. */
  rowsPerProcess: number | null;
}

/** The head of the agent's `start` request. */
export function startHead(plan: PoolPlan, options: StartHeadOptions): Record<string, unknown> {
  const { request, limits } = plan;
  const { first, count } = plan.ranges[options.index] as RowRange;
  const milliseconds = (seconds: number): number => Math.ceil(seconds * 1000);
  return {
    op: "start",
    n: request.n,
    first,
    count,
    rows_per_process: options.rowsPerProcess,
    ...(options.rowsPerProcess === null && options.index === 0 ? { measure: true } : {}),
    argv: plan.argv,
    cwd: plan.cwd,
    environ: plan.environ,
    isolated: options.isolated,
    way: request.start,
    spawn_parallel: Math.max(1, Math.ceil(availableParallelism() / plan.ranges.length)),
    base_uid: baseUid,
    template_uid: templateUid,
    workspace_bytes: plan.workspaceBytes,
    workspace_inodes: limits.workspaceInodes,
    memory_bytes: plan.memoryBytes,
    shard_memory_bytes: shardMemoryBytes(plan, options.index),
    memory_dir: options.memoryDir,
    own_groups: options.rowMemory === "watch",
    processes: limits.processes,
    seed: options.seed,
    seeds: request.seeds,
    autoreset: request.autoreset,
    episode_offset: options.episodeOffset,
    deadlines_ms: {
      start: milliseconds(request.start_timeout),
      reset: milliseconds(request.reset_timeout),
      step: milliseconds(request.step_timeout),
      call: milliseconds(request.call_timeout),
      close: closeDeadlineMs,
    },
    in_flight: request.in_flight,
    first_reset: options.firstReset,
    branching: request.branching,
    states: statesMax,
    states_memory: request.branching && options.memoryDir !== null ? `${options.memoryDir}/states` : null,
    branch_workspace_bytes: Math.min(plan.workspaceBytes, copiedWorkspaceBytesMax),
    max_message_bytes: limits.messageBytes,
    max_row_bytes: Math.min(limits.messageBytes, Math.floor(limits.replyBytes / request.n)),
    ...(plan.workspacesFolder === null ? {} : { workspaces: plan.workspacesFolder }),
  };
}

export const closeDeadlineMs = 2000;
