import type { CreatePoolRequest } from "@sandpool/protocol";

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** More threads would keep a process that imported numpy from forking. */
const oneThread = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"];

/** The environment variables of a pool's programs; the client's own come last. PYTHONPATH is nobody's but the client's. */
export function makeEnviron(poolId: string, request: CreatePoolRequest, venv: string | null): Record<string, string> {
  return {
    PATH: venv === null ? standardPath : `${venv}/bin:${standardPath}`,
    LANG: "C.UTF-8",
    PYTHONUNBUFFERED: "1",
    // /env is read-only; without this each import would try, and fail, to write beside the source.
    PYTHONDONTWRITEBYTECODE: "1",
    ...Object.fromEntries(oneThread.map((name) => [name, "1"])),
    ...(venv === null ? {} : { VIRTUAL_ENV: venv }),
    ...request.env,
    SANDPOOL: "1",
    SANDPOOL_POOL: poolId,
    SANDPOOL_ROWS: String(request.n),
  };
}
