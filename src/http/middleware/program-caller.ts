import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { type Caller, isTenantId, SCOPES } from '../../domain/access.ts';
import { AUTHENTICATE_WITHIN_MS } from '../../domain/tunables.ts';
import type { Log } from '../../platform/log.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { Authenticate } from '../http-env.ts';

const callerSchema = z.object({
  tenantId: z.custom<string>(isTenantId),
  scopes: z.array(z.enum(SCOPES)).max(SCOPES.length),
});

/**
 * The caller as the program that mounts the API knows it. Null: it knows none. What the program throws is its own, so
 * the log has the name of the error alone, and the answer nothing of it.
 * @throws ProblemError `internal` (it failed, or returned no caller), `timeout` (10 s)
 */
export async function askProgram(
  authenticate: Authenticate,
  { request, incoming }: Readonly<{ request: Request; incoming: IncomingMessage | undefined }>,
  log: Log,
): Promise<Caller | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(() => resolve(LATE), AUTHENTICATE_WITHIN_MS);
  });
  try {
    const found = await Promise.race([callOf(authenticate), late]);
    if (found === LATE) {
      log('error', { event: 'authenticate_failed', reason: 'late' });
      throw new ProblemError('timeout', 'The program that serves this API did not say in time who the caller is');
    }
    if (found === null || found === undefined) return null;
    const caller = callerSchema.safeParse(found);
    if (caller.success) return { ...caller.data, keyId: null };
    const fields = caller.error.issues.map(({ path }) => path.join('.') || 'the whole value');
    throw failure(log, { reason: 'invalid', fields: [...new Set(fields)].slice(0, 5) });
  } finally {
    clearTimeout(timer);
  }

  async function callOf(ask: Authenticate): Promise<unknown> {
    try {
      return await ask(request, { incoming });
    } catch (error) {
      throw failure(log, { reason: 'threw', fields: [], name: nameOf(error) });
    }
  }
}

const LATE = Symbol('late');

type Failure = Readonly<{ reason: 'invalid' | 'threw'; fields: readonly string[]; name?: string }>;

function failure(log: Log, why: Failure): ProblemError {
  log('error', { event: 'authenticate_failed', ...why });
  return new ProblemError('internal', 'The program that serves this API could not say who the caller is');
}

/** The name of its class, if it looks like one. */
function nameOf(error: unknown): string {
  const name = error instanceof Error ? error.name : typeof error;
  return /^[A-Za-z]\w{0,60}$/.test(name) ? name : 'Error';
}
