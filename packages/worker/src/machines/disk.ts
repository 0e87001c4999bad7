import type { MachineDriver, SavedDisk } from "../drivers/machine.ts";
import { driverFailure } from "./session/errors.ts";
import type { MachineSession } from "./session/session.ts";

const saves = new WeakMap<MachineSession, Promise<unknown>>();

/** Writes the disk to `file`, whole or not at all; one save after another, for the machine stands still meanwhile. */
export async function saveDisk(session: MachineSession, driver: MachineDriver, file: string): Promise<SavedDisk> {
  const before = saves.get(session) ?? Promise.resolve();
  const save = before.then(() => saveNow(session, driver, file));
  saves.set(
    session,
    save.catch(() => undefined),
  );
  return await save;
}

async function saveNow(session: MachineSession, driver: MachineDriver, file: string): Promise<SavedDisk> {
  session.pauses += 1;
  try {
    return await driver.saveDisk(session.id, file);
  } catch (error) {
    throw driverFailure(error);
  } finally {
    session.pauses -= 1;
  }
}
