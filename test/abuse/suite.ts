import { compileProduct } from '../support/child-environment.ts';
import { ROWS } from './catalogue.ts';
import type { AbuseOptions } from './options.ts';
import { type RowResult, tell, toJson } from './report.ts';
import type { Row } from './row.ts';
import { FULL, type Scale, type Try, tryRow } from './run-row.ts';
import { type Services, startServices } from './world/services.ts';

/** A row that is slightly too slow is tried up to this often: other load can only slow it down. */
const TRIES = 3;

/** Runs the chosen rows one after the other. @returns whether all that the machine can run are ok */
export async function runSuite(
  { only, json, seed }: AbuseOptions,
  signal: AbortSignal,
  print: (line: string) => void,
): Promise<boolean> {
  compileProduct();
  await using services = await startServices();
  if (!json) for (const line of services.report) print(line);
  let isWell = true;
  for (const row of ROWS.filter(({ name }) => only?.includes(name) ?? true)) {
    const result = await runRow(row, services, { seed, scale: FULL, signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
      return null;
    });
    if (result === null) return false;
    isWell &&= result.ok !== false;
    print(json ? toJson(result) : tell(result));
  }
  return isWell;
}

/** Tries a row until it is ok, or fails for a reason that a retry cannot excuse. */
export async function runRow(
  row: Row,
  services: Services,
  { seed, scale, signal }: Readonly<{ seed: number; scale: Scale; signal: AbortSignal }>,
): Promise<RowResult> {
  signal.throwIfAborted();
  const startedAtMs = performance.now();
  const rowSeed = `${seed}/${row.name}`;
  const known = { row: row.name, seed: rowSeed };
  const missing = (row.needs ?? []).flatMap((need) => services.missing.get(need) ?? []);
  if (missing.length > 0) return { ...known, ok: null, reasons: missing, tries: 0, last: null, durationMs: 0 };
  for (let tries = 1; ; tries++) {
    const last: Try = await tryRow(row, services, { seed: rowSeed, scale, signal });
    const { faults, slow, mayBeNoise } = last.verdict;
    if (mayBeNoise && tries < TRIES) continue;
    const reasons = [...faults, ...slow];
    return { ...known, ok: reasons.length === 0, reasons, tries, last, durationMs: performance.now() - startedAtMs };
  }
}
