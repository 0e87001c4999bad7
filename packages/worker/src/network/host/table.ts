import { guardedBy } from "./forwarding.ts";
import { type HostNames, machineInterface, outerIndex } from "./plan.ts";
import {
  entryCommands,
  guardedCommands,
  type RuleEntry,
  type RuleOptions,
  tableRules,
  upstreamCommands,
} from "./rules.ts";
import { askNft, runNft } from "./run.ts";

/** The server's nft table. Its elements are the record of which machine is what, as the kernel holds it. */
export class RuleTable {
  readonly #names: HostNames;
  readonly entries = new Map<number, RuleEntry>();
  guarded: readonly string[] = [];

  constructor(names: HostNames) {
    this.#names = names;
  }

  /** Reads what an earlier server left standing. */
  async load(): Promise<void> {
    const listed = await askNft("map", "inet", this.#names.table, "policies").catch(() => []);
    const elements = listed.find((entry) => entry.map !== undefined)?.map?.elem;
    for (const element of Array.isArray(elements) ? elements : []) {
      const entry = readElement(element);
      if (entry !== null) this.entries.set(entry.index, entry);
    }
    this.guarded = await guardedBy(this.#names.table);
  }

  /** Puts the whole table in place; those of `entries` that `keep` refuses fall away. */
  async write(
    options: Omit<RuleOptions, "names" | "entries" | "guarded">,
    keep: (name: string) => boolean,
  ): Promise<void> {
    for (const index of this.entries.keys()) {
      if (!keep(machineInterface(this.#names, index))) this.entries.delete(index);
    }
    const standing = { names: this.#names, entries: [...this.entries.values()], guarded: this.guarded };
    await runNft(tableRules({ ...options, ...standing }));
  }

  async isThere(): Promise<boolean> {
    return (await askNft("tables")).some((entry) => entry.table?.name === this.#names.table);
  }

  async add(entry: RuleEntry): Promise<void> {
    const old = this.entries.get(entry.index);
    if (old?.kind === entry.kind) return;
    const removal = old === undefined ? "" : entryCommands(this.#names, [old], "delete");
    await runNft(removal + entryCommands(this.#names, [entry], "add"));
    this.entries.set(entry.index, entry);
  }

  /** Idempotent. */
  async remove(indexes: readonly number[]): Promise<void> {
    const found = indexes.map((index) => this.entries.get(index)).filter((entry) => entry !== undefined);
    if (found.length === 0) return;
    await runNft(entryCommands(this.#names, found, "delete"));
    for (const { index } of found) this.entries.delete(index);
  }

  async guard(guarded: readonly string[]): Promise<void> {
    if (guarded.join() === this.guarded.join()) return;
    await runNft(guardedCommands(this.#names, guarded));
    this.guarded = guarded;
  }

  async setUpstreams(upstreams: RuleOptions["upstreams"]): Promise<void> {
    await runNft(upstreamCommands(this.#names, upstreams));
  }

  /** It was dropped. */
  forget(): void {
    this.entries.clear();
    this.guarded = [];
  }
}

export async function dropTable(name: string): Promise<void> {
  await runNft(`table inet ${name}\ndelete table inet ${name}\n`);
}

/** `[{"concat":["spm…","198.19.1.0"]},{"jump":{"target":"open"}}]` */
function readElement(element: unknown): RuleEntry | null {
  const [key, verdict] = element as [{ concat?: unknown[] }, { jump?: { target?: unknown } }];
  const index = outerIndex(String(key?.concat?.[1]));
  const kind = verdict?.jump?.target;
  return index === null || (kind !== "open" && kind !== "egress") ? null : { index, kind };
}
