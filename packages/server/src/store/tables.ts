import type { Insertable, Selectable } from "kysely";
import type { MachinesTable } from "./machinesTable.ts";

/** The store's tables as kysely sees them. Times are ISO 8601 in UTC. */
export interface Tables {
  keys: KeysTable;
  pools: PoolsTable;
  operations: OperationsTable;
  idempotency: IdempotencyTable;
  machines: MachinesTable;
}

export interface KeysTable {
  id: string;
  owner: string;
  name: string;
  hash: Uint8Array;
  admin: number;
  created_at: string;
  revoked_at: string | null;
}

/** `lost`: the server ended without closing it. `reason` says who closed it: `deleted`, `lease`, `server_stopped`. */
export interface PoolsTable {
  id: string;
  owner: string;
  name: string | null;
  state: "ready" | "closed" | "lost";
  reason: string | null;
  created_at: string;
  ended_at: string | null;
}

/** One line per operation: the journal and the audit in one. */
export interface OperationsTable {
  id: string;
  owner: string;
  key_id: string;
  kind: string;
  object_id: string | null;
  state: "running" | "done" | "failed" | "interrupted";
  error_code: string | null;
  started_at: string;
  ended_at: string | null;
}

export interface IdempotencyTable {
  owner: string;
  key: string;
  request_hash: string;
  object_id: string;
  created_at: string;
}

export type PoolRow = Selectable<PoolsTable>;
export type MachineRow = Selectable<MachinesTable>;
export type KeyRow = Selectable<KeysTable>;
export type NewOperation = Insertable<OperationsTable>;
