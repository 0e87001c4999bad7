import { type PoolOptions, type PoolProgress, type RLPool, type Sandpool, SandpoolError } from "sandpool";
import { type ActionSourceFactory, chooseActions } from "./actions.ts";
import { tryBranching } from "./branching.ts";
import { compareTrajectories } from "./determinism.ts";
import { type CheckReport, Findings } from "./findings.ts";
import {
  judgeCreationFailure,
  judgeDeterminism,
  judgeEpisodes,
  judgeFailures,
  judgeMemory,
  judgeRewards,
  judgeSpaces,
  judgeStart,
  judgeSteps,
} from "./judge.ts";
import { judgeBranching } from "./judgeBranching.ts";
import { findSpaceFaults, type SpaceFaults } from "./spaceFaults.ts";
import { readSpace } from "./spaces.ts";
import { type SteppingRecord, stepThrough, summarise } from "./stepping.ts";
import { describeTypes } from "./types.ts";

export interface CheckOptions {
  environment: string;
  n: number;
  steps: number;
  seed: number;
  actionsFile: string | undefined;
  pool: Partial<PoolOptions>;
  onProgress: (label: string, done: number, total: number) => void;
  onCreation: (progress: PoolProgress) => void;
  /** Aborts the creation, and the check between two batches; the pool is closed in any case. */
  signal: AbortSignal;
}

type Server = { client: Sandpool; embedded: boolean };

/** Makes a real pool of the environment, exercises it and judges what came; closes the pool whatever happens. */
export async function runCheck(server: Server, options: CheckOptions): Promise<CheckReport> {
  const findings = new Findings();
  const report = emptyReport(server, options, findings);
  const pool = await openPool(server.client, options, findings);
  if (pool !== null) {
    try {
      await examine(pool, report, findings, options);
    } finally {
      await pool.close();
    }
  }
  report.ok = !findings.list.some((finding) => finding.verdict === "failed");
  return report;
}

async function openPool(client: Sandpool, options: CheckOptions, findings: Findings): Promise<RLPool | null> {
  try {
    const creation = {
      n: options.n,
      seed: options.seed,
      warn: false,
      onProgress: options.onCreation,
      signal: options.signal,
    };
    return await client.createPool(options.environment, { ...options.pool, ...creation });
  } catch (error) {
    const ofEnvironment = ["environment_failed", "fork_unsupported", "dependency_failed", "archive_invalid"];
    if (!(error instanceof SandpoolError) || !ofEnvironment.includes(error.code)) throw error;
    judgeCreationFailure(findings, error);
    return null;
  }
}

async function examine(pool: RLPool, report: CheckReport, findings: Findings, options: CheckOptions): Promise<void> {
  const { description } = pool;
  const actionSpace = readSpace(description.action_space);
  const sources = await chooseActions(actionSpace, options.actionsFile, options.seed);
  const faults = findSpaceFaults(readSpace(description.observation_space));
  report.start = judgeStart(findings, description);
  const record = await examineSteps(pool, report, findings, options, sources, faults);
  report.types = describeTypes(pool, actionSpace, record.infoTypes);
  await examineDeterminism(pool, report, findings, options, sources, record);
  await examineBranching(pool, report, findings, options, sources, record);
  report.memory = judgeMemory(findings, await pool.status({ memory: true }));
}

async function examineSteps(
  pool: RLPool,
  report: CheckReport,
  findings: Findings,
  options: CheckOptions,
  sources: ActionSourceFactory,
  faults: SpaceFaults,
): Promise<SteppingRecord> {
  const actions = sources();
  const record = await stepThrough(pool, actions, options.steps, {
    onObservation: faults.look,
    onStep: (step) => {
      options.signal.throwIfAborted();
      options.onProgress("stepping", step, options.steps);
    },
  });
  report.latency = { reset_ms: summarise(record.resetMs), step_ms: summarise(record.stepMs) };
  judgeSteps(findings, actions, record, report.latency);
  judgeSpaces(findings, faults);
  report.failures = judgeFailures(findings, record);
  report.episodes = judgeEpisodes(findings, actions, record);
  judgeRewards(findings, actions, record);
  return record;
}

async function examineDeterminism(
  pool: RLPool,
  report: CheckReport,
  findings: Findings,
  options: CheckOptions,
  sources: ActionSourceFactory,
  record: SteppingRecord,
): Promise<void> {
  options.onProgress("comparing trajectories", 0, 1);
  // Rows that keep failing would only be waited for again, up to their deadline each time.
  const result = record.stoppedEarly
    ? { steps: 0, differences: [], infoDifferences: [] }
    : await compareTrajectories(pool, sources, options.steps, options.seed);
  report.determinism = result.steps === 0 ? null : [...result.differences, ...result.infoDifferences];
  judgeDeterminism(findings, result, sources().draw !== null);
}

async function examineBranching(
  pool: RLPool,
  report: CheckReport,
  findings: Findings,
  options: CheckOptions,
  sources: ActionSourceFactory,
  record: SteppingRecord,
): Promise<void> {
  options.signal.throwIfAborted();
  options.onProgress("saving and restoring", 0, 1);
  const result = record.stoppedEarly
    ? { way: null, uncopied: [], steps: 0, differences: [], infoDifferences: [] }
    : await tryBranching(pool, sources, options.seed);
  const hasInfoDifferences = (report.determinism ?? []).some(({ field }) => field.startsWith("info"));
  report.branching = judgeBranching(findings, result, hasInfoDifferences);
}

function emptyReport(server: Server, options: CheckOptions, findings: Findings): CheckReport {
  return {
    environment: options.environment,
    server: { url: server.client.url, started_for_this_check: server.embedded },
    rows: options.n,
    steps: options.steps,
    seed: options.seed,
    ok: false,
    findings: findings.list,
    start: null,
    latency: null,
    types: null,
    episodes: null,
    failures: [],
    memory: null,
    determinism: null,
    branching: null,
  };
}
