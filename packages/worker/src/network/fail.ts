import { DriverError } from "../drivers/driver.ts";

/** A machine's network could not be made or looked at. */
export function networkFailed(
  message: string,
  hint = "run `sandpool doctor`; the message is the tool's own",
): DriverError {
  return new DriverError("sandbox_start_failed", `the machine's network: ${message}`, hint);
}
