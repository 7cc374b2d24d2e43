import { parseArgs } from 'node:util';
import { z } from 'zod';
import { PROFILE_NAMES, SESSION_PROFILES } from '../simulator/profiles.ts';
import { RecordingError, readRecording } from '../simulator/recording.ts';
import { STRATEGIES } from '../src/domain/context/limits/policy.ts';
import { createLog } from '../src/platform/log.ts';
import { formatCell, replayMatrix, summarizeMatrix } from './matrix.ts';
import { costOfRaw, formatCost } from './metrics/bars.ts';
import { formatMismatch } from './mismatch.ts';
import { type ReplayOptions, type ReplayResult, replayRecording } from './replay-recording.ts';
import { REPLAY_PROVIDERS } from './replayed-agent.ts';

const usage = `npm run replay -- FILE [--window TOKENS] [--strategy NAME] [--provider openai|anthropic]
                  [--backend redis|postgres] [--profile NAME] [--json]
npm run replay -- --matrix FOLDER [--window …] [--strategy …] [--provider …] [--backend …] [--json]

Sends a recorded conversation through the whole service and compares what it stored with the recording.
With a window, a strategy or a provider it also tells how the context was kept. --matrix does so for every recording of
a folder, provider and window: one line each, and a sum.
A profile is an endpoint that refuses more than its protocol does: ${SESSION_PROFILES.join(', ')}.
Postgres: DATABASE_URL, else an embedded one; BATON_API_KEY where it has API keys. Backend: redis where REDIS_URL is set,
else postgres.
Exit code 0: equal; 1: mismatches (on stderr), or a bar missed; 2: it could not be replayed.`;

const argumentsSchema = z.strictObject({
  window: z.coerce.number({ error: '--window takes a number of tokens' }).int().positive().optional(),
  strategy: z.enum(STRATEGIES, { error: `--strategy takes one of ${STRATEGIES.join(', ')}` }).optional(),
  provider: z.enum(REPLAY_PROVIDERS, { error: `--provider takes ${REPLAY_PROVIDERS.join(' or ')}` }).optional(),
  profile: z
    .enum(PROFILE_NAMES)
    .refine((name) => SESSION_PROFILES.includes(name))
    .optional(),
  backend: z.enum(['redis', 'postgres'], { error: '--backend takes redis or postgres' }).optional(),
  json: z.boolean().default(false),
  matrix: z.boolean().default(false),
  file: z.string().optional(),
});
type Arguments = z.infer<typeof argumentsSchema>;

/** Limit of the described mismatches; one early difference can make all later ones differ. */
const DESCRIBED_MISMATCHES = 20;

/** @returns the exit code: 2, not 1, for a recording that cannot be replayed */
export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usage);
    return 0;
  }
  try {
    return (await replay(argumentsSchema.parse(readArguments(args)), environment)) ? 0 : 1;
  } catch (error) {
    console.error(`replay: ${describe(error)}`);
    return 2;
  }
}

function readArguments(args: readonly string[]) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      window: { type: 'string' },
      strategy: { type: 'string' },
      provider: { type: 'string' },
      profile: { type: 'string' },
      backend: { type: 'string' },
      json: { type: 'boolean' },
      matrix: { type: 'boolean' },
    },
  });
  const [file, ...more] = positionals;
  if (more.length > 0) throw new Error(`one file at a time, not ${positionals.join(', ')}`);
  return { ...values, file };
}

/** True: no mismatch and no missed bar. */
async function replay(
  { file, json, matrix, backend, ...model }: Arguments,
  environment: NodeJS.ProcessEnv,
): Promise<boolean> {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`stopped by ${signal}`)));
  }
  // Standard output is for the result only.
  const log = createLog({ level: 'error', destination: { write: (line) => process.stderr.write(line) } });
  const apiKey = environment['BATON_API_KEY'] || undefined;
  const options = { ...servicesFor(backend, environment), ...model, log, apiKey, signal: interrupted.signal };
  if (file === undefined)
    throw new Error(`name the ${matrix ? 'folder of recordings' : 'file of a recording'}\n\n${usage}`);
  if (matrix) return replayAll(file, options, json);
  const result = await replayRecording(await readRecording(file), options);
  const { mismatches } = result;
  for (const mismatch of mismatches.slice(0, DESCRIBED_MISMATCHES)) console.error(formatMismatch(mismatch));
  if (mismatches.length > DESCRIBED_MISMATCHES) {
    console.error(`… and ${mismatches.length - DESCRIBED_MISMATCHES} more`);
  }
  console.log(json ? JSON.stringify(summarize(result)) : tell(result));
  return mismatches.length === 0;
}

async function replayAll(folder: string, options: ReplayOptions, json: boolean): Promise<boolean> {
  const cells = await replayMatrix(folder, options, (cell) =>
    console.log(json ? JSON.stringify(cell) : formatCell(cell)),
  );
  console.log(JSON.stringify(summarizeMatrix(cells)));
  return cells.every(({ missed }) => missed.length === 0);
}

function servicesFor(
  backend: Arguments['backend'],
  environment: NodeJS.ProcessEnv,
): Pick<ReplayOptions, 'databaseUrl' | 'redisUrl'> {
  const databaseUrl = environment['DATABASE_URL'] || undefined;
  const redisUrl = environment['REDIS_URL'] || undefined;
  if (backend === 'redis' && redisUrl === undefined) throw new Error('--backend redis needs REDIS_URL');
  return { databaseUrl, redisUrl: backend === 'postgres' ? undefined : redisUrl };
}

function summarize({ steps, toolCalls, userMessages, mismatches, durationMs, context }: ReplayResult) {
  return {
    steps,
    toolCalls,
    userMessages,
    mismatches: mismatches.length,
    durationMs: Math.round(durationMs),
    stepsPerSecond: Math.round((steps / durationMs) * 10_000) / 10,
    ...context,
  };
}

function tell(result: ReplayResult): string {
  const { steps, toolCalls, userMessages, mismatches, durationMs, stepsPerSecond } = summarize(result);
  const verdict = mismatches === 0 ? 'equal to the recording' : `${mismatches} mismatches`;
  const speed = `${(durationMs / 1000).toFixed(1)} s (${stepsPerSecond} steps/s)`;
  const { context } = result;
  const kept = context === null ? '' : `\n${formatCost(costOfRaw(context))}\n${JSON.stringify(context, null, 2)}`;
  return `${steps} steps, ${toolCalls} tool calls, ${userMessages} user messages in ${speed}: ${verdict}.${kept}`;
}

function describe(error: unknown): string {
  if (error instanceof z.ZodError) return `${error.issues.map((issue) => issue.message).join('; ')}\n\n${usage}`;
  if (!(error instanceof Error)) return String(error);
  return error instanceof RecordingError || !(error.cause instanceof Error)
    ? error.message
    : `${error.message}: ${error.cause.message}`;
}
