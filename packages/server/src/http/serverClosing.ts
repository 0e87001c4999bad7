import { SandpoolError } from "@sandpool/protocol";

/** Thrown while the server shuts down. */
export function serverClosing(): SandpoolError {
  return new SandpoolError("server_closing", "the server is shutting down", {
    hint: "pools end with it; create them again",
  });
}
