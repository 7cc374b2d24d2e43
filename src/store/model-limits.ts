import { sql } from 'kysely';
import { z } from 'zod';
import type { LearnedLimits } from '../domain/context/limits.ts';
import type { Db } from './database.ts';

/** A model behind one endpoint: the same model may be served with another window elsewhere. */
export type ModelKey = Readonly<{ provider: string; endpoint: string; model: string }>;

export type RememberedModel = Readonly<{
  /** What overflows taught about its limits; null when there was none. */
  learned: LearnedLimits | null;
  /** Real tokens per estimated token, from earlier sessions. */
  prior: number | null;
}>;

/** What is remembered of a model; nothing when it was never met. */
export async function readModel(db: Db, key: ModelKey): Promise<RememberedModel> {
  const row = await db
    .selectFrom('model_limits')
    .select(['context_tokens', 'input_tokens', 'estimator_prior'])
    .where('provider', '=', key.provider)
    .where('endpoint', '=', key.endpoint)
    .where('model', '=', key.model)
    .executeTakeFirst();
  return toRemembered(row?.context_tokens ?? null, row?.input_tokens ?? null, row?.estimator_prior ?? null);
}

function toRemembered(contextWindow: number | null, inputLimit: number | null, prior: number | null): RememberedModel {
  const learned = {
    ...(contextWindow !== null && { contextWindow }),
    ...(inputLimit !== null && { inputLimit }),
  };
  return { learned: Object.keys(learned).length === 0 ? null : learned, prior };
}

/** What a claim brings along of the endpoints that serve the agent's model: what a step would ask for next. */
export const modelMemorySchema = z.object({
  /** `provider/model`; null where the copy of the agent cannot be read. */
  model: z.string().nullable(),
  limits: z.array(
    z.object({
      endpoint: z.string(),
      contextWindow: z.number().nullable(),
      inputLimit: z.number().nullable(),
      prior: z.number().nullable(),
    }),
  ),
  /** Endpoints that are not to be asked, and for how long still. */
  pauses: z.array(z.object({ endpoint: z.string(), leftMs: z.number() })),
});

export type ModelMemory = z.infer<typeof modelMemorySchema>;

/** What the claim says of this model; null where it is another one than the agent's name says. */
export function recallModel(
  memory: ModelMemory,
  { provider, endpoint, model }: ModelKey,
): Readonly<{ remembered: RememberedModel; pausedMs: number }> | null {
  if (memory.model !== `${provider}/${model}`) return null;
  const limits = memory.limits.find((each) => each.endpoint === endpoint);
  const { contextWindow = null, inputLimit = null, prior = null } = limits ?? {};
  const pausedMs = memory.pauses.find((each) => each.endpoint === endpoint)?.leftMs ?? 0;
  return { remembered: toRemembered(contextWindow, inputLimit, prior), pausedMs };
}

/** Remembers what an overflow taught. The last one counts: an endpoint may be given a larger window. */
export async function rememberLimits(db: Db, key: ModelKey, learned: LearnedLimits): Promise<void> {
  await sql`
    insert into model_limits (provider, endpoint, model, context_tokens, input_tokens)
    values (${key.provider}, ${key.endpoint}, ${key.model}, ${learned.contextWindow ?? null}, ${learned.inputLimit ?? null})
    on conflict (provider, endpoint, model) do update set
      context_tokens = coalesce(excluded.context_tokens, model_limits.context_tokens),
      input_tokens = coalesce(excluded.input_tokens, model_limits.input_tokens),
      learned_at = clock_timestamp()`.execute(db);
}

/** Remembers what a session learned about the model's tokens, for the sessions to come. */
export async function rememberPrior(db: Db, key: ModelKey, prior: number): Promise<void> {
  await sql`
    insert into model_limits (provider, endpoint, model, estimator_prior)
    values (${key.provider}, ${key.endpoint}, ${key.model}, ${prior})
    on conflict (provider, endpoint, model) do update set estimator_prior = excluded.estimator_prior`.execute(db);
}
