import { sql } from 'kysely';
import { z } from 'zod';
import type { LearnedLimits } from '../../domain/context/limits/limits.ts';
import type { Lesson } from '../../domain/context/meter/learned-limits.ts';
import { ADAPTATION_KINDS, type Adaptation, isSame } from '../../domain/model/remedies/adaptation.ts';
import type { Db } from '../db/database.ts';

/** A model at one endpoint. Another endpoint may serve it with another window. */
export type ModelKey = Readonly<{ provider: string; endpoint: string; model: string }>;

export type RememberedModel = Readonly<{
  /** Limits learned from overflows. Null: none. */
  learned: LearnedLimits | null;
  /** Billed per estimated token, from earlier sessions. */
  prior: number | null;
  /** The endpoint refused a request because of its tools within the last day. */
  refusesTools: boolean;
  /** The changes that the endpoint wants of the tenant's requests, the oldest first. */
  adaptations: readonly Adaptation[];
}>;

/** Returns an empty memory for an unknown model. */
export async function readModel(db: Db, key: ModelKey, tenantId: string): Promise<RememberedModel> {
  const row = await db
    .selectFrom('model_limits')
    .select(['context_tokens', 'input_tokens', 'estimator_prior'])
    .select(sql<boolean>`baton_refuses_tools(tools_refused_at)`.as('refuses_tools'))
    .where('provider', '=', key.provider)
    .where('endpoint', '=', key.endpoint)
    .where('model', '=', key.model)
    .executeTakeFirst();
  const { rows: adaptations } = await sql<unknown>`
    select kind, detail from model_adaptations
    where tenant_id = ${tenantId} and provider = ${key.provider} and endpoint = ${key.endpoint}
      and model = ${key.model} and baton_is_adapted(kind, learned_at)
    order by learned_at, kind, detail`.execute(db);
  return toRemembered(
    row && {
      contextWindow: row.context_tokens,
      inputLimit: row.input_tokens,
      prior: row.estimator_prior,
      refusesTools: row.refuses_tools,
    },
    z.array(adaptationSchema).parse(adaptations),
  );
}

function toRemembered(row: RememberedRow | undefined, adaptations: readonly Adaptation[]): RememberedModel {
  const { contextWindow = null, inputLimit = null, prior = null, refusesTools = false } = row ?? {};
  const learned = {
    ...(contextWindow !== null && { contextWindow }),
    ...(inputLimit !== null && { inputLimit }),
  };
  return { learned: Object.keys(learned).length === 0 ? null : learned, prior, refusesTools, adaptations };
}

const adaptationSchema = z.object({ kind: z.enum(ADAPTATION_KINDS), detail: z.string() });

const rememberedSchema = z.object({
  contextWindow: z.number().nullable(),
  inputLimit: z.number().nullable(),
  prior: z.number().nullable(),
  refusesTools: z.boolean(),
});
type RememberedRow = z.infer<typeof rememberedSchema>;

/** Memory of the agent's model at all its endpoints. A claim returns it, so that the step needs no further query. */
export const modelMemorySchema = z.object({
  /** `provider/model`. Null: the session's copy of the agent cannot be read. */
  model: z.string().nullable(),
  limits: z.array(rememberedSchema.extend({ endpoint: z.string() })),
  adaptations: z.array(adaptationSchema.extend({ endpoint: z.string() })),
  /** Pauses by endpoint and key, with the time left. */
  pauses: z.array(z.object({ endpoint: z.string(), credential: z.string(), leftMs: z.number() })),
});

export type ModelMemory = z.infer<typeof modelMemorySchema>;

/** The memory of one model. Null: the claim read that of another model. */
export function recallModel(
  memory: ModelMemory,
  { provider, endpoint, model, credential }: ModelKey & Readonly<{ credential: string }>,
): Readonly<{ remembered: RememberedModel; pausedMs: number }> | null {
  if (memory.model !== `${provider}/${model}`) return null;
  const limits = memory.limits.find((each) => each.endpoint === endpoint);
  const pausedMs =
    memory.pauses.find((each) => each.endpoint === endpoint && each.credential === credential)?.leftMs ?? 0;
  const adaptations = memory.adaptations
    .filter((each) => each.endpoint === endpoint)
    .map(({ kind, detail }) => ({ kind, detail }));
  return { remembered: toRemembered(limits, adaptations), pausedMs };
}

/**
 * Stores limits of a model. One that the endpoint named replaces the stored one, as windows change; one that a call has
 * proven only raises it.
 */
export async function rememberLimits(db: Db, key: ModelKey, { by, limits }: Lesson): Promise<void> {
  const { contextWindow = null, inputLimit = null } = limits;
  const after = (name: 'context_tokens' | 'input_tokens') =>
    by === 'told'
      ? sql`coalesce(excluded.${sql.ref(name)}, model_limits.${sql.ref(name)})`
      : sql`greatest(excluded.${sql.ref(name)}, model_limits.${sql.ref(name)})`;
  await sql`
    insert into model_limits (provider, endpoint, model, context_tokens, input_tokens)
    values (${key.provider}, ${key.endpoint}, ${key.model}, ${contextWindow}, ${inputLimit})
    on conflict (provider, endpoint, model) do update set
      context_tokens = ${after('context_tokens')},
      input_tokens = ${after('input_tokens')}`.execute(db);
}

/** Stores the ratio of billed to estimated tokens for later sessions. */
export async function rememberPrior(db: Db, key: ModelKey, prior: number): Promise<void> {
  await sql`
    insert into model_limits (provider, endpoint, model, estimator_prior)
    values (${key.provider}, ${key.endpoint}, ${key.model}, ${prior})
    on conflict (provider, endpoint, model) do update set estimator_prior = excluded.estimator_prior`.execute(db);
}

export async function rememberToolRefusal(db: Db, key: ModelKey): Promise<void> {
  await sql`
    insert into model_limits (provider, endpoint, model, tools_refused_at)
    values (${key.provider}, ${key.endpoint}, ${key.model}, clock_timestamp())
    on conflict (provider, endpoint, model) do update set tools_refused_at = excluded.tools_refused_at`.execute(db);
}

/** Most changes that are kept for a model at one endpoint. */
const MAX_ADAPTATIONS = 200;

/** Stores the changes with which an endpoint took a tenant's request. The oldest of too many are dropped. */
export async function rememberAdaptations(
  db: Db,
  tenantId: string,
  key: ModelKey,
  adaptations: readonly Adaptation[],
): Promise<void> {
  if (adaptations.length === 0) return;
  // A statement must not write the same row twice, and all write in the same order, so that none waits for another in a
  // circle.
  const distinct = adaptations.filter((one, at) => adaptations.findIndex((other) => isSame(one, other)) === at);
  const nameOf = ({ kind, detail }: Adaptation): string => `${kind} ${detail}`;
  const ordered = distinct.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const values = ordered.map(({ kind, detail }) => ({ tenant_id: tenantId, ...key, kind, detail }));
  await db
    .insertInto('model_adaptations')
    .values(values)
    .onConflict((conflict) =>
      conflict
        .columns(['tenant_id', 'provider', 'endpoint', 'model', 'kind', 'detail'])
        .doUpdateSet({ learned_at: sql`clock_timestamp()` }),
    )
    .execute();
  await sql`
    delete from model_adaptations where ctid in (
      select ctid from model_adaptations
      where tenant_id = ${tenantId} and provider = ${key.provider} and endpoint = ${key.endpoint}
        and model = ${key.model}
      order by learned_at desc offset ${MAX_ADAPTATIONS})`.execute(db);
}
