import { join } from "node:path";
import { type NdArray, type PoolOptions, RLPool } from "../../src/index.ts";
import type { TestServer } from "./server.ts";

/** A folder of test/fixtures. */
export function fixture(name: string): string {
  return join(import.meta.dirname, "../fixtures", name);
}

/** Makes a pool of a fixture on a test server; failed rows are not warned of. */
export function makePool<Observations = NdArray>(
  server: TestServer,
  name: string,
  options: PoolOptions,
): Promise<RLPool<Observations>> {
  return RLPool.create(fixture(name), { warn: false, ...options }, { url: server.url, apiKey: server.key });
}
