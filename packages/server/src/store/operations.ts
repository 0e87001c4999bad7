import { makeId, SandpoolError } from "@sandpool/protocol";
import type { Logger } from "pino";
import type { Identity } from "../keys/keyring.ts";
import type { Store } from "./openStore.ts";

const KEPT_OPERATIONS = 100_000;

/** One state-changing operation from its start to its audit line. */
export interface Operation {
  readonly id: string;
  /** Ends it well; `objectId` is what it made or removed. */
  done(objectId: string | null): Promise<void>;
  failed(errorCode: string): Promise<void>;
}

type OnEnd = (kind: string, state: "done" | "failed") => void;

interface Started {
  id: string;
  owner: string;
  key_id: string;
  kind: string;
  object_id: string | null;
}

/** Journals an operation before it happens and writes its one audit line when it ended. */
export class OperationJournal {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #onEnd: OnEnd;

  constructor(store: Store, logger: Logger, onEnd: OnEnd) {
    this.#onEnd = onEnd;
    this.#store = store;
    this.#logger = logger;
  }

  async begin(kind: string, caller: Identity, objectId: string | null = null): Promise<Operation> {
    const started = start(kind, caller, objectId);
    const { id } = started;
    await this.#store
      .insertInto("operations")
      .values({ ...started, state: "running", error_code: null, started_at: now(), ended_at: null })
      .execute();
    const end = async (state: "done" | "failed", object: string | null, errorCode: string | null) => {
      await this.#store
        .updateTable("operations")
        .set({ state, object_id: object, error_code: errorCode, ended_at: now() })
        .where("id", "=", id)
        .execute();
      this.#ended({ ...started, object_id: object }, state, errorCode);
    };
    return { id, done: (object) => end("done", object, null), failed: (code) => end("failed", objectId, code) };
  }

  /**
   * Runs an operation on a live object and writes its audit line, in the log only: a tree search forks thousands of times, which
   * would push everything else out of the store, and a crash leaves nothing of them to settle.
   */
  async audited<Result>(kind: string, caller: Identity, objectId: string, act: () => Promise<Result>): Promise<Result> {
    const started = start(kind, caller, objectId);
    try {
      const result = await act();
      this.#ended(started, "done", null);
      return result;
    } catch (error) {
      this.#ended(started, "failed", error instanceof SandpoolError ? error.code : "internal");
      throw error;
    }
  }

  #ended(started: Started, state: "done" | "failed", errorCode: string | null): void {
    this.#onEnd(started.kind, state);
    this.#logger.info({ audit: { ...started, state, error_code: errorCode } }, "operation");
  }

  /** After a crash: whatever was running was interrupted. Also drops all but the newest lines. */
  async settleAtStart(): Promise<void> {
    const running = await this.#store
      .updateTable("operations")
      .set({ state: "interrupted", ended_at: now() })
      .where("state", "=", "running")
      .returning(["id", "kind", "owner", "key_id", "object_id"])
      .execute();
    for (const operation of running) {
      this.#logger.warn({ audit: { ...operation, state: "interrupted" } }, "operation");
    }
    const oldest = this.#store
      .selectFrom("operations")
      .select("id")
      .orderBy("started_at", "desc")
      .limit(KEPT_OPERATIONS);
    await this.#store.deleteFrom("operations").where("id", "not in", oldest).execute();
  }
}

function start(kind: string, caller: Identity, objectId: string | null): Started {
  return { id: makeId("op"), owner: caller.owner, key_id: caller.keyId, kind, object_id: objectId };
}

export function now(): string {
  return new Date().toISOString();
}
