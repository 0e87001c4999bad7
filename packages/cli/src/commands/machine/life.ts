import { type Machine, Sandpool } from "sandpool";
import { confirm } from "../../output/confirm.ts";
import { ContentWriter } from "../../output/content.ts";
import { EXIT } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";
import { withSpinner } from "../../output/progress.ts";

const DOING = { stop: "saving the disk of", start: "starting" } as const;

/** Stops or starts machines, one after another; the first failure ends it. */
export async function changeMachines(
  output: Output,
  verb: "stop" | "start",
  names: readonly string[],
): Promise<number> {
  const { machines } = new Sandpool();
  const changed: Machine[] = [];
  for (const name of names) {
    const machine = await withSpinner(output, `${DOING[verb]} ${safe(name)}`, () => machines[verb](name));
    changed.push(machine);
    if (!output.json) output.line(`${safe(machine.name)} (${safe(machine.id)}) is ${safe(machine.state)}.`);
  }
  if (output.json) output.document({ machines: changed });
  return EXIT.ok;
}

/** Deletes machines, after asking unless `yes`. All names are looked up first: a slip of the pen deletes nothing. */
export async function deleteMachines(
  output: Output,
  names: readonly string[],
  options: { yes: boolean },
): Promise<number> {
  const { machines } = new Sandpool();
  const found: Machine[] = [];
  for (const name of names) found.push(await machines.get(name));
  const listed = found.map(({ name }) => safe(name)).join(", ");
  if (!options.yes && !(await confirm(`Delete ${listed} with all on the disk?`))) {
    output.note("Nothing was deleted.");
    return EXIT.failed;
  }
  for (const { id, name } of found) {
    await withSpinner(output, `deleting ${safe(name)}`, () => machines.delete(id));
    if (!output.json) output.line(`Deleted ${safe(name)} (${safe(id)}); nothing of it is left.`);
  }
  if (output.json) output.document({ deleted: found.map(({ id, name }) => ({ id, name })) });
  return EXIT.ok;
}

/** The last words of a machine's agent and runtime: exact, but at a terminal escaped. */
export async function machineLogs(output: Output, name: string): Promise<number> {
  const bytes = await new Sandpool().machines.logs(name);
  if (output.json) output.document({ text: bytes.toString("utf8") });
  else {
    const writer = new ContentWriter(process.stdout);
    await writer.write(bytes);
    await writer.end();
  }
  return EXIT.ok;
}
