import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

export interface IdRange {
  first: number;
  count: number;
}

/** The subordinate ids of this user, from `/etc/subuid` and `/etc/subgid`. Null when there is no entry. */
export function readSubordinateIds(user = currentUser()): { user: string; uids: IdRange | null; gids: IdRange | null } {
  return { user: user.name, uids: firstRange("/etc/subuid", user), gids: firstRange("/etc/subgid", user) };
}

export interface UserName {
  name: string;
  uid: number;
}

/** The first entry of at least 2 ids whose owner is the user's name or number; see subuid(5). */
export function parseSubordinate(text: string, user: UserName): IdRange | null {
  for (const line of text.split("\n")) {
    const [owner, first, count] = line.trim().split(":");
    if (owner !== user.name && owner !== String(user.uid)) continue;
    const range = { first: Number(first), count: Number(count) };
    if (Number.isInteger(range.first) && Number.isInteger(range.count) && range.count >= 2) return range;
  }
  return null;
}

function firstRange(file: string, user: UserName): IdRange | null {
  try {
    return parseSubordinate(readFileSync(file, "utf8"), user);
  } catch {
    return null;
  }
}

function currentUser(): UserName {
  const uid = process.geteuid?.() ?? 0;
  try {
    return { name: userInfo().username, uid };
  } catch {
    // No entry in the user database.
    return { name: String(uid), uid };
  }
}
