import { expect, onTestFinished, test } from "vitest";
import { openTestPools } from "../../fixtures/pool.ts";
import { ScriptedDriver } from "../../fixtures/scripted-driver.ts";
import { ScriptedStream } from "../../fixtures/scripted-stream.ts";
import { StreamClient } from "../../fixtures/stream-client.ts";

const rows = [0, 1, 2];
const rounds = 3;

/** A client whose connection breaks at one moment, and who does what the contract tells it to do then. */
class CutClient extends StreamClient {
  /** Messages in either direction until the connection breaks. */
  left: number;
  readonly log = new Map<number, { row: number; action: number }>();

  constructor(pool: ConstructorParameters<typeof StreamClient>[0], cutAfter: number) {
    super(pool);
    this.left = cutAfter;
    this.onMessage = () => this.#survives();
  }

  /** A message that may be lost on its way, as may the next ones until the client notices. */
  request(row: number, action: number): void {
    this.number += 1;
    this.log.set(this.number, { row, action });
    if (this.#survives()) this.step([row], [action], this.number);
  }

  reopen(): void {
    this.detach();
    this.left = Number.POSITIVE_INFINITY;
    this.open();
    const { accepted = 0 } = this.inbox.findLast(({ event }) => event === "open") ?? {};
    for (const [number, { row, action }] of this.log) if (number > accepted) this.step([row], [action], number);
  }

  #survives(): boolean {
    this.left -= 1;
    return this.left >= 0;
  }
}

/** Every message in either direction, in this many rounds over all rows, and one more. */
const moments = Array.from({ length: 1 + rows.length * rounds * 2 + 1 }, (_, moment) => moment);

test.each(moments)(
  "a connection that breaks after %i messages loses nothing and does nothing twice",
  async (moment) => {
    const driver = new ScriptedDriver();
    const agents = new ScriptedStream();
    agents.isQuick = true;
    driver.script = agents.script;
    const pools = await openTestPools(driver);
    onTestFinished(() => pools.close());
    const pool = await pools.create({ n: rows.length, shards: 2 });
    const client = new CutClient(pool, moment).open();
    const asked = new Map(rows.map((row) => [row, 0]));
    const got = new Map(rows.map((row) => [row, [] as number[]]));
    let read = 0;
    const isDone = (): boolean => rows.every((row) => got.get(row)?.length === rounds);
    while (!isDone()) {
      for (const row of rows) {
        const next = asked.get(row) as number;
        if (next === got.get(row)?.length && next < rounds) {
          asked.set(row, next + 1);
          client.request(row, 100 * row + next);
        }
      }
      await new Promise((resolve) => setImmediate(resolve));
      for (const result of client.results.slice(read)) {
        for (const [at, row] of (result.where ?? []).entries()) got.get(row)?.push(result.rewards?.[at] as number);
      }
      read = client.results.length;
      if (client.left < 0) client.reopen();
    }
    expect(got).toEqual(new Map(rows.map((row) => [row, [0, 1, 2].map((round) => 100 * row + round)])));
    expect([...agents.steps]).toEqual(expect.arrayContaining(rows.map((row) => [row, rounds])));
    expect(agents.sent).toHaveLength(rows.length * rounds);
    expect(client.results.map(({ number }) => number)).toEqual(client.results.map((_, at) => at + 1));
  },
);
