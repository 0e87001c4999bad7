import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";
import { DriverError, type SandboxMount } from "./driver.ts";

/**
 * What must be mounted for a Python interpreter outside /usr: its virtual environment, if it is in one, and its installation prefix,
 * read-only at the same paths. Nothing is executed to find out, and only folders that look like a Python are ever mounted, so that
 * a path chosen by a client cannot name an arbitrary folder of the host.
 */
export function pythonMounts(pythonPath: string): SandboxMount[] {
  if (!isAbsolute(pythonPath) || !existsSync(pythonPath)) {
    throw refused(pythonPath, "does not exist or is not absolute");
  }
  const environment = dirname(dirname(pythonPath));
  const configuration = `${environment}/pyvenv.cfg`;
  const installed = prefixOf(pythonPath, dirname(realpathSync(pythonPath)));
  const folders = existsSync(configuration)
    ? new Set([environment, prefixOf(pythonPath, homeOf(configuration) ?? "/usr/bin"), installed])
    : new Set([prefixOf(pythonPath, dirname(pythonPath)), installed]);
  return [...folders]
    .filter((folder) => !isSystem(folder))
    .map((path) => ({ source: path, target: path, readOnly: true }));
}

/** The installation around a `bin` folder: it has the standard library. */
function prefixOf(pythonPath: string, binFolder: string): string {
  const prefix = dirname(binFolder);
  if (isSystem(prefix)) return prefix;
  const library = `${prefix}/lib`;
  const versions = existsSync(library) ? readdirSync(library).filter((name) => /^(python3|pypy3)/.test(name)) : [];
  if (versions.some((name) => existsSync(`${library}/${name}/os.py`))) return prefix;
  throw refused(pythonPath, `belongs to ${prefix}, which has no lib/python3.*/os.py`);
}

/** See PEP 405: `home` is the folder of the interpreter the environment was made with. */
function homeOf(configuration: string): string | null {
  return readFileSync(configuration, "utf8").match(/^home\s*=\s*(\/.*?)\s*$/m)?.[1] ?? null;
}

function isSystem(path: string): boolean {
  return path === "/" || path === "/usr" || path.startsWith("/usr/");
}

function refused(pythonPath: string, why: string): DriverError {
  return new DriverError(
    "sandbox_spec_invalid",
    `the Python ${JSON.stringify(pythonPath)} ${why}`,
    "give the absolute path of a Python 3 installation or of the interpreter in a virtual environment, such as /usr/bin/python3",
  );
}
