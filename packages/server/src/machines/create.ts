import { type CreateMachineRequest, type MachineEvent, makeId, SandpoolError } from "@sandpool/protocol";
import { serverClosing } from "../http/serverClosing.ts";
import type { Identity } from "../keys/keyring.ts";
import { hashRequest } from "../pools/idempotency.ts";
import { requireRoom } from "./admission.ts";
import type { MachineContext } from "./context.ts";
import { deleteMachine } from "./delete.ts";
import type { MachineEntry } from "./entry.ts";
import type { CreationRecords } from "./idempotency.ts";
import type { CreationKey } from "./machineStore.ts";
import { makeMachine } from "./make.ts";
import { type CheckedRequest, checkRequest } from "./plan.ts";

export type MachineProgress = Extract<MachineEvent, { event: "progress" }>;
type ProgressListener = (progress: MachineProgress) => void;

export interface CreateMachineInput {
  caller: Identity;
  request: CreateMachineRequest;
  rawBody: Buffer;
  idempotencyKey: string | null;
}

/** What became of one machine of a request. */
export type Fate = { entry: MachineEntry } | { error: unknown };

/** A creation under way; several requests with one Idempotency-Key share it. */
export interface MachineCreation {
  readonly id: string;
  /** One for each machine of the request, in order. Never rejects. */
  readonly fates: Promise<Fate[]>;
  onProgress(listener: ProgressListener): void;
  /** The caller went away: rolls back, unless an Idempotency-Key lets it come back. */
  abandon(): void;
}

/** Makes machines: checked first, journalled, rolled back whole, once per Idempotency-Key. */
export class MachineCreator {
  readonly #context: MachineContext;
  readonly #records: CreationRecords;
  readonly #shared = new Map<string, { creation: Promise<MachineCreation>; requestHash: string }>();
  readonly #running = new Map<AbortController, Promise<unknown>>();

  constructor(context: MachineContext, records: CreationRecords) {
    this.#context = context;
    this.#records = records;
  }

  /** Starts a creation, joins the one with the same key, or gives what that key made before. @throws what a request is refused with before anything is made */
  async start(input: CreateMachineInput): Promise<MachineCreation> {
    const { idempotencyKey: key, caller } = input;
    if (key === null) return this.#begin(input, null);
    const requestHash = hashRequest(Buffer.concat([Buffer.from("machines\n"), input.rawBody]));
    const slot = `${caller.owner} ${key}`;
    const shared = this.#shared.get(slot);
    if (shared !== undefined) {
      this.#records.requireSame(key, shared.requestHash, requestHash);
      return shared.creation;
    }
    const creation = this.#begin(input, { key, requestHash });
    this.#shared.set(slot, { creation, requestHash });
    const settled = () => this.#shared.delete(slot);
    creation.then((begun) => begun.fates).then(settled, settled);
    return creation;
  }

  /** A delete that comes before its create: the key makes nothing any more, and what it is making is rolled back. */
  async revoke(caller: Identity, key: string): Promise<void> {
    await this.#records.revoke(caller.owner, key);
    const shared = this.#shared.get(`${caller.owner} ${key}`);
    const fates = await shared?.creation.then((creation) => creation.fates).catch(() => []);
    for (const fate of fates ?? []) if ("entry" in fate) await deleteMachine(this.#context, fate.entry, caller);
  }

  async #begin(input: CreateMachineInput, key: CreationKey | null): Promise<MachineCreation> {
    const { caller, request } = input;
    const indexes = Array.from({ length: request.count }, (_, index) => index);
    const keys = indexes.map((index) => keyOf(key, index, request.count));
    const known = await Promise.all(keys.map((one) => this.#earlier(caller.owner, one)));
    const feed = new ProgressFeed();
    const id = makeId("op");
    if (known.every((fate): fate is Fate => fate !== null)) return finished(id, known, feed);
    const checked = await checkRequest(request, this.#context);
    await requireRoom(this.#context.dataDir, this.#context.limits);
    const controller = new AbortController();
    const fates = Promise.all(
      indexes.map((index) => known[index] ?? this.#one(input, checked, index, keys[index] ?? null, controller, feed)),
    );
    this.#running.set(controller, fates);
    void fates.finally(() => this.#running.delete(controller));
    // Refused before anything was made: an ordinary refusal, not a failed creation.
    if (request.count === 1) await Promise.race([fates.then(throwRefusal), feed.begun]);
    const abandon = () => {
      if (key !== null) return;
      controller.abort(aborted());
      void fates.then((made) => this.#rollBack(made, caller));
    };
    return { id, fates, abandon, onProgress: (listener) => feed.listen(listener) };
  }

  async #one(
    { caller, request }: CreateMachineInput,
    checked: CheckedRequest,
    index: number,
    key: CreationKey | null,
    controller: AbortController,
    feed: ProgressFeed,
  ): Promise<Fate> {
    const name = request.name === null || request.count === 1 ? request.name : `${request.name}-${index + 1}`;
    try {
      const progress = request.count === 1 ? feed.tell : () => {};
      const entry = await makeMachine(this.#context, {
        caller,
        checked,
        name,
        key,
        controller,
        progress,
        begun: feed.begin,
      });
      if (request.count > 1) feed.step(request.count);
      return { entry };
    } catch (error) {
      return { error: controller.signal.aborted ? controller.signal.reason : error };
    }
  }

  async #earlier(owner: string, key: CreationKey | null): Promise<Fate | null> {
    if (key === null) return null;
    const id = await this.#records.find(owner, key);
    if (id === null) return null;
    const entry = this.#context.registry.byId(id);
    return entry === null ? { error: this.#records.gone(key.key, id) } : { entry };
  }

  async #rollBack(fates: Fate[], caller: Identity): Promise<void> {
    const made = fates.flatMap((fate) => ("entry" in fate ? [fate.entry] : []));
    for (const entry of made) {
      await deleteMachine(this.#context, entry, caller).catch((error: unknown) => {
        this.#context.logger.error({ err: error, machine: entry.id }, "a creation could not be rolled back");
      });
    }
  }

  /** The server stops: every creation under way is rolled back; resolves when nothing of them is left. */
  async abortAll(): Promise<void> {
    for (const controller of this.#running.keys()) controller.abort(serverClosing());
    await Promise.allSettled(this.#running.values());
  }
}

/** Each machine of a batch has a key of its own; a client's key has no space in it. */
function keyOf(key: CreationKey | null, index: number, count: number): CreationKey | null {
  return key === null || count === 1 ? key : { ...key, key: `${key.key} ${index}` };
}

function finished(id: string, fates: Fate[], feed: ProgressFeed): MachineCreation {
  return {
    id,
    fates: Promise.resolve(fates),
    abandon: () => {},
    onProgress: (listener) => feed.listen(listener),
  };
}

function throwRefusal([fate]: Fate[]): void {
  if (fate !== undefined && "error" in fate) throw fate.error;
}

/** Tells every listener, one that comes later from the last known state on. */
class ProgressFeed {
  readonly #listeners = new Set<ProgressListener>();
  readonly #begun = Promise.withResolvers<void>();
  #last: MachineProgress | null = null;
  #done = 0;

  /** Resolves when a machine of the request has its name and its place. */
  readonly begun = this.#begun.promise;
  readonly begin = (): void => this.#begun.resolve();

  listen(listener: ProgressListener): void {
    this.#listeners.add(listener);
    if (this.#last !== null) listener(this.#last);
  }

  readonly tell = (progress: MachineProgress): void => {
    this.#last = progress;
    for (const listener of this.#listeners) listener(progress);
  };

  /** One more of a batch runs. */
  step(total: number): void {
    this.#done += 1;
    this.tell({ event: "progress", phase: "start", done: this.#done, total });
  }
}

function aborted(): SandpoolError {
  return new SandpoolError("creation_aborted", "the caller went away before the creation ended", {
    hint: "send an Idempotency-Key to let a creation outlive its connection",
  });
}
