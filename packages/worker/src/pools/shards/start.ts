import { formatSize, type Layout, SandpoolError } from "@sandpool/protocol";
import { AgentChannel } from "../../agent/channel.ts";
import { DriverError, type Sandbox } from "../../drivers/driver.ts";
import { fail } from "../../fail.ts";
import { memoryGroups } from "../packing/memory-groups.ts";
import { type PoolPlan, shardMemoryBytes, shardSpec, startHead } from "../plan.ts";
import type { RowRange } from "../rows/ranges.ts";
import type { ShardFailure } from "./failure.ts";

/** A sandbox whose agent has started every environment of the shard. */
export interface RunningShard {
  sandbox: Sandbox;
  agent: AgentChannel;
  /** Number of the last batch this agent was sent; each agent counts for itself. */
  lastSequence: number;
}

export interface StartOptions {
  index: number;
  generation: number;
  seed: number;
  episodeOffset: number;
  firstReset: boolean;
  /** A promise: the agent starts its template and waits with the rows until it is told. */
  rowsPerProcess: number | Promise<number>;
  /** The event `measured`. */
  onMeasured?: (event: Readonly<Record<string, unknown>>) => void;
}

export interface StartReply {
  way: string;
  reason: string | null;
  hello: Record<string, unknown>;
  layout: Layout;
  timing: { template_ms?: number; start_ms?: number; reset_ms?: number };
}

export type PhaseProgress = (phase: "template" | "start" | "reset", done: number, total: number) => void;

/** Beyond its own deadlines an agent may be slow, but it may not be silent this long. */
const silenceGraceMs = 30_000;

/** Starts one shard's sandbox, agent and environments. On a failure or an abort nothing of it is left. */
export async function startShard(
  plan: PoolPlan,
  options: StartOptions,
  signal: AbortSignal,
  onProgress: PhaseProgress,
): Promise<{ running: RunningShard; reply: StartReply }> {
  signal.throwIfAborted();
  const sandbox = await startSandbox(plan, options, signal);
  const agent = new AgentChannel(sandbox.channel);
  const stop = (): void => void sandbox.kill().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  const silence = watchSilence(plan, stop);
  agent.onEvent = (event) => {
    silence.refresh();
    if (event.event === "measured") options.onMeasured?.(event);
    if (event.event !== "progress") return;
    onProgress(event.phase as "template" | "start" | "reset", Number(event.done), Number(event.total));
  };
  try {
    signal.throwIfAborted();
    const { memoryDir, rowMemory, isolated } = sandbox;
    const rowsPerProcess = knownRows(options);
    const request = startHead(plan, { ...options, rowsPerProcess, memoryDir, rowMemory, isolated });
    const started = agent.ask(request, plan.rawBody, null);
    const [{ head }] = await Promise.all([started, sendPack(plan, options, sandbox, agent)]);
    signal.throwIfAborted();
    return { running: { sandbox, agent, lastSequence: 0 }, reply: head as unknown as StartReply };
  } catch (error) {
    const explained = await explainStart(error, sandbox, plan, options.index, silence.passed());
    await sandbox.kill();
    signal.throwIfAborted();
    throw explained;
  } finally {
    silence.stop();
    signal.removeEventListener("abort", stop);
  }
}

function knownRows({ rowsPerProcess }: StartOptions): number | null {
  return typeof rowsPerProcess === "number" ? rowsPerProcess : null;
}

/** Tells an agent that started without it how many rows share a process. Their memory groups get the limits first. */
async function sendPack(plan: PoolPlan, options: StartOptions, sandbox: Sandbox, agent: AgentChannel): Promise<void> {
  if (typeof options.rowsPerProcess === "number") return;
  const rowsPerProcess = await options.rowsPerProcess;
  if (rowsPerProcess > 1) await sandbox.raiseRowMemory(memoryGroups(plan, options.index, rowsPerProcess));
  await agent.ask({ op: "pack", rows_per_process: rowsPerProcess }, null, null);
}

/** Sends a started shard the pool's form of observations. An abort ends the sandbox, so that nobody waits for an agent that is silent. */
export async function fixLayout({ sandbox, agent }: RunningShard, layout: Layout, signal: AbortSignal): Promise<void> {
  const stop = (): void => void sandbox.kill().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await agent.ask({ op: "layout", layout });
  } finally {
    signal.removeEventListener("abort", stop);
    signal.throwIfAborted();
  }
}

async function startSandbox(plan: PoolPlan, options: StartOptions, signal: AbortSignal): Promise<Sandbox> {
  try {
    return await plan.driver.start(shardSpec(plan, options.index, options.generation, knownRows(options)), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof DriverError ? fromDriverError(error) : error;
  }
}

/** A driver's error under a code that crosses the API. */
export function fromDriverError(error: DriverError): SandpoolError {
  // What is wrong in a spec came from the request: a Python that is none, a mount that is not there.
  const codes = { driver_unavailable: "driver_unavailable", sandbox_spec_invalid: "invalid_request" } as const;
  const code = error.code in codes ? codes[error.code as keyof typeof codes] : "internal";
  return fail(code, error.message, {
    hint: error.hint,
    details: { ...error.details, driver_code: error.code },
    cause: error,
  });
}

function watchSilence(plan: PoolPlan, stop: () => void): { refresh(): void; passed(): boolean; stop(): void } {
  let passed = false;
  const limitMs = (plan.request.start_timeout + plan.request.reset_timeout) * 1000 + silenceGraceMs;
  const timer = setTimeout(() => {
    passed = true;
    stop();
  }, limitMs);
  return { refresh: () => timer.refresh(), passed: () => passed, stop: () => clearTimeout(timer) };
}

async function explainStart(
  error: unknown,
  sandbox: Sandbox,
  plan: PoolPlan,
  index: number,
  silent: boolean,
): Promise<unknown> {
  if (!(error instanceof SandpoolError) || error.code !== "pool_lost") return error;
  const { first, count } = plan.ranges[index] as RowRange;
  const rows = `rows ${first} to ${first + count - 1}`;
  if (silent) {
    return fail(
      "deadline_passed",
      `The agent of ${rows} was silent beyond the start and reset deadlines; its sandbox was killed.`,
      {
        hint: "See whether the host is overloaded; raise start_timeout if the environments need long to import.",
        details: { stderr_tail: sandbox.stderr() },
      },
    );
  }
  const failure = await explainDeath(sandbox, plan, index);
  return fail("environment_failed", failure.message, {
    hint:
      failure.kind === "oom" ? "Raise the pool's memory or lower n." : "The standard error in the details may say why.",
    details: {
      row: first,
      kind: failure.kind,
      op: "start",
      exit_code: failure.exitCode,
      signal: failure.signal,
      stderr_tail: failure.stderrTail,
      traceback: null,
    },
  });
}

/** Says how a sandbox ended, once its channel has. */
export async function explainDeath(sandbox: Sandbox, plan: PoolPlan, index: number): Promise<ShardFailure> {
  const { first, count } = plan.ranges[index] as RowRange;
  const waited = AbortSignal.timeout(exitWaitMs);
  const late = new Promise<null>((resolve) => waited.addEventListener("abort", () => resolve(null), { once: true }));
  const exit = await Promise.race([sandbox.exited, late]);
  const { code, signal } = exit ?? { code: null, signal: null };
  const how = signal !== null ? `by ${signal}` : code !== null ? `with exit code ${code}` : "in an unknown way";
  // The agent has the lowest out-of-memory score, so it is killed last: by its own sandbox's limit or by somebody outside.
  const memory =
    signal === "SIGKILL"
      ? `; the kernel does so when a sandbox passes its memory limit (${formatSize(shardMemoryBytes(plan, index))})`
      : "";
  return {
    kind: "crash",
    message: `The sandbox of rows ${first} to ${first + count - 1} ended ${how}${memory}.`,
    exitCode: code,
    signal,
    stderrTail: sandbox.stderr().slice(-4096),
  };
}

const exitWaitMs = 1000;
