import type { EncodedBatch } from "../../worker.ts";
import { ReplyHold } from "../batches/hold.ts";
import { tellNext } from "../batches/tell-next.ts";
import type { PoolCore } from "../core.ts";
import { poolGone } from "../gone.ts";

/** Thrown by a branching batch that changed nothing: its number is free for another one. */
export class Unchanged extends Error {
  override readonly cause: Error;

  constructor(cause: Error) {
    super(cause.message);
    this.cause = cause;
  }
}

/** What was asked, its failure as one that changed nothing. */
export function unchanged<Result>(asked: Promise<Result>): Promise<Result> {
  return asked.catch((error: unknown) => {
    throw new Unchanged(error as Error);
  });
}

/** Runs one branching batch under its number, alone in the pool. `run` gets the hold of its reply's memory. */
export function takeTurn(
  core: PoolCore,
  numbered: { seq: number; request: Buffer },
  run: (hold: ReplyHold) => Promise<EncodedBatch>,
): Promise<EncodedBatch> {
  const { promise, resolve, reject } = Promise.withResolvers<EncodedBatch>();
  const hold = new ReplyHold();
  hold.add();
  core.turn.begin(numbered.seq, numbered.request, promise, hold);
  const end = (isRefused: boolean): void => {
    core.lastUsedMs = Date.now();
    core.states.running = null;
    if (isRefused) core.turn.refused();
    else core.turn.settled();
  };
  core.states.running = run(hold).then(
    (batch) => {
      end(false);
      if (core.closing.aborted) reject(poolGone(core.plan.id, core.closeReason));
      else resolve({ ...batch, release: () => hold.release() });
    },
    (error: unknown) => {
      end(error instanceof Unchanged);
      if (core.closing.aborted) reject(poolGone(core.plan.id, core.closeReason));
      else reject(tellNext(error instanceof Unchanged ? error.cause : error, numbered.seq, core.turn.nextSeq));
    },
  );
  return promise;
}
