import { availableParallelism } from "node:os";
import type { Packing } from "@sandpool/protocol";
import type { PoolPlan } from "../plan.ts";
import { choosePacking, fixedPacking, type Measurement } from "./choose.ts";

/** The packing of a pool that starts, known at once or after the first shard's agent has measured a step. */
export interface PackingChoice {
  /** Null: the agents are told later, by `pack`. */
  rowsPerProcess: number | null;
  packing: Promise<Packing>;
  /** The first shard's event `measured`. */
  onMeasured(event: Readonly<Record<string, unknown>>): void;
}

export function awaitChoice(plan: PoolPlan): PackingChoice {
  const { n, envs_per_process: requested } = plan.request;
  if (plan.rowsPerProcess !== null) {
    const fixed =
      requested === "auto"
        ? choosePacking(plan.ranges, 1, { stepUs: null, reason: null, packable: true })
        : fixedPacking(plan.rowsPerProcess, n);
    return { rowsPerProcess: plan.rowsPerProcess, packing: Promise.resolve(fixed), onMeasured: () => {} };
  }
  const { promise, resolve } = Promise.withResolvers<Packing>();
  return {
    rowsPerProcess: null,
    packing: promise,
    onMeasured: (event) => resolve(choosePacking(plan.ranges, availableParallelism(), readMeasurement(event))),
  };
}

function readMeasurement(event: Readonly<Record<string, unknown>>): Measurement {
  const { step_us: stepUs, reason, packable } = event;
  const isTime = typeof stepUs === "number" && Number.isFinite(stepUs) && stepUs >= 0;
  return {
    stepUs: isTime ? stepUs : null,
    reason: typeof reason === "string" ? reason.slice(0, 500) : null,
    packable: packable === true,
  };
}
