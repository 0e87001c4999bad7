import type { PackageIndex } from "./index.ts";

/** Where a layer stands inside every sandbox; the environment's scripts name it in their first lines. */
export const insideVenv = "/sandpool/venv";
/** Of the relay inside the sandbox, whose network is its own. */
export const proxyPort = 3128;

/** Both steps in one command line; everything variable is an argument, never part of the shell's text. */
export function installArgv(uv: string, python: string, venv: string, file: string): string[] {
  const script =
    'mkdir -p "$TMPDIR" && "$1" venv --python "$2" --allow-existing "$3" && exec "$1" pip install --python "$3/bin/python" --compile-bytecode -r "$4"';
  return ["/bin/sh", "-c", script, "sh", uv, python, venv, file];
}

/** What uv is told. Its cache lies beside the installed files, on one mount, so that it can link instead of copy. */
export function installEnviron(
  index: PackageIndex,
  venv: string,
  certificates: string | null,
  proxied: boolean,
): Record<string, string> {
  const proxy = `http://127.0.0.1:${proxyPort}`;
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: `${venv}/.tmp`,
    TMPDIR: `${venv}/.tmp`,
    LANG: "C.UTF-8",
    UV_CACHE_DIR: `${venv}/.cache`,
    UV_DEFAULT_INDEX: index.default,
    UV_NO_CONFIG: "1",
    UV_NO_PROGRESS: "1",
    UV_PYTHON_DOWNLOADS: "never",
    UV_HTTP_TIMEOUT: "60",
    ...(index.extra.length > 0 ? { UV_INDEX: index.extra.join(" ") } : {}),
    ...(certificates === null ? {} : { SSL_CERT_FILE: certificates }),
    ...(proxied ? { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy } : {}),
  };
}
