import { SandpoolError } from "@sandpool/protocol";
import { type Credentials, credentialsPath, readCredentials, removeUrl, writeCredentials } from "./credentialsFile.ts";
import { runAsCaller, type SudoCaller, sudoCaller } from "./dropToCaller.ts";

/** Where clients of this user find the server: `{url, key}` in one private file. */
export interface Discovery {
  /** The key of an earlier start, if the file has one. */
  readKey(): Promise<string | null>;
  publish(credentials: Required<Credentials>): Promise<void>;
  /** At a clean stop: removes the url, keeps the key. */
  withdraw(url: string): Promise<void>;
}

/** `file`: undefined for the calling user's own place (under sudo that user's), a path, or null for none. */
export function openDiscovery(file: string | null | undefined): Discovery {
  if (file === null) return { readKey: async () => null, publish: async () => {}, withdraw: async () => {} };
  const caller = sudoCaller();
  return caller === null ? ownFile(file ?? credentialsPath()) : callersFile(caller, file ?? null);
}

function ownFile(path: string): Discovery {
  return {
    readKey: async () => (await refused(readCredentials(path)))?.key ?? null,
    publish: (credentials) => refused(writeCredentials(path, credentials)),
    withdraw: (url) => refused(removeUrl(path, url)),
  };
}

function callersFile(caller: SudoCaller, path: string | null): Discovery {
  return {
    readKey: async () => ((await runAsCaller(caller, "readCredentials", path)) as Credentials | null)?.key ?? null,
    publish: async (credentials) => {
      await runAsCaller(caller, "writeCredentials", path, credentials);
    },
    withdraw: async (url) => {
      await runAsCaller(caller, "removeUrl", path, url);
    },
  };
}

async function refused<T>(action: Promise<T>): Promise<T> {
  try {
    return await action;
  } catch (cause) {
    throw new SandpoolError("credentials_refused", (cause as Error).message, {
      hint: "remove it, or make it a plain file of your own with mode 600",
      cause,
    });
  }
}
