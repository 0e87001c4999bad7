import type { Keyring } from "../keys/keyring.ts";
import { FIRST_OWNER, type KeyManager } from "../keys/manageKeys.ts";
import type { Discovery } from "./discovery.ts";

/**
 * The key this machine's clients use: the one in the credentials file while the store knows it, else a new one.
 * Keys are hashed at rest, so a file that was lost cannot be written again from the store.
 */
export async function chooseLocalKey(discovery: Discovery, keyring: Keyring, keys: KeyManager): Promise<string> {
  const kept = await discovery.readKey();
  if (kept !== null && keyring.identify(kept) !== null) return kept;
  return (await keys.insert(FIRST_OWNER, "local", true)).key;
}
