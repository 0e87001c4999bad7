import { SandpoolError } from "../errors.ts";
import type { Observations } from "../pool/observations.ts";
import type { RowError } from "../pool/rowErrors.ts";
import type { Value, ValueObject } from "../values/types.ts";
import type { Part, RowOperation } from "./results.ts";
import { waitFor } from "./waiting.ts";

/** One row's result. */
export interface RowOutcome {
  op: RowOperation;
  observation: Value;
  reward: number;
  terminated: boolean;
  truncated: boolean;
  info: ValueObject;
  error: RowError | null;
}

interface Pending {
  arrival: PromiseWithResolvers<RowOutcome>;
  /** The next failure that ends waits, not the row. */
  failure: PromiseWithResolvers<never>;
  /** Whoever asked has given up: the result is for nobody. */
  isAbandoned: boolean;
}

/** What single rows were asked and have not answered. */
export class RowRequests {
  readonly #pending = new Map<number, Pending>();

  /** Notes that a row was asked and waits for its result. An abort gives up the wait only: the row goes on. */
  async await(row: number, signal: AbortSignal | undefined): Promise<RowOutcome> {
    const pending = {
      arrival: Promise.withResolvers<RowOutcome>(),
      failure: makeFailure(),
      isAbandoned: false,
    };
    this.#pending.set(row, pending);
    try {
      const end = Promise.race([pending.arrival.promise, pending.failure.promise]);
      return await waitFor(end, { signal }, () => new Error());
    } catch (error) {
      pending.isAbandoned = true;
      throw error;
    }
  }

  /** Throws `pool_busy` when somebody still waits for the row's last result. */
  refuseBusy(row: number): void {
    if (this.#pending.get(row)?.isAbandoned !== false) return;
    throw new SandpoolError("pool_busy", `Row ${row} was asked before its last result was there.`, {
      hint: "Await one call of an environment before the next.",
    });
  }

  /** Resolves when the row has answered, or never will; null if it was not asked. */
  whenBack(row: number): Promise<void> | null {
    const done = (): void => undefined;
    return this.#pending.get(row)?.arrival.promise.then(done, done) ?? null;
  }

  /** As `whenBack`, but rejects with the next failure of the stream, and with the signal's reason. */
  comeBack(row: number, signal: AbortSignal | undefined): Promise<void> | null {
    const back = this.whenBack(row);
    const failure = this.#pending.get(row)?.failure.promise;
    if (back === null || failure === undefined) return null;
    return waitFor(Promise.race([back, failure]), { signal }, () => new Error());
  }

  /** Takes the rows of a part that were asked here; gives the places of the others. */
  take(part: Part, observations: Observations): number[] {
    return [...part.rows.keys()].filter((place) => {
      const row = part.rows[place] as number;
      const pending = this.#pending.get(row);
      this.#pending.delete(row);
      pending?.arrival.resolve(outcomeOf(part, place, observations));
      return pending === undefined;
    });
  }

  /** Takes the refusal of a message: the rows that were not asked here. */
  refuse(rows: readonly number[], error: SandpoolError): number[] {
    return rows.filter((row) => {
      const pending = this.#pending.get(row);
      this.#pending.delete(row);
      pending?.arrival.reject(error);
      return pending === undefined;
    });
  }

  /** Ends every wait with an error; with `isFinal` no result will come either. */
  fail(error: SandpoolError, isFinal: boolean): void {
    for (const pending of this.#pending.values()) {
      const { arrival, failure } = pending;
      // Whoever waits after this one waits for the next.
      pending.failure = makeFailure();
      failure.reject(error);
      if (isFinal) arrival.reject(error);
    }
    if (isFinal) this.#pending.clear();
  }
}

function makeFailure(): PromiseWithResolvers<never> {
  const failure = Promise.withResolvers<never>();
  // Nobody need wait for it.
  failure.promise.catch(() => undefined);
  return failure;
}

function outcomeOf(part: Part, place: number, observations: Observations): RowOutcome {
  const row = part.rows[place] as number;
  return {
    op: part.ops[place] ?? "step",
    observation: observations.at(part.observations, place),
    reward: part.rewards[place] ?? 0,
    terminated: part.terminated[place] === true,
    truncated: part.truncated[place] === true,
    info: part.infos.get(row) ?? {},
    error: part.errors.get(row) ?? null,
  };
}
