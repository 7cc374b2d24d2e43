import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import type { Row } from '../row.ts';
import { withOrder } from '../world/model.ts';

const RETRY_AFTER_SECONDS = 60;

const LANES = 4;
/** The model is asked within this time, unless the session's tenant is already paused. */
const ASKED_WITHIN_MS = 1_000;
/** A pause that one session reports lasts seconds; reported by two, it lasts as long as the provider asks. */
const MIN_SESSIONS_TOLD = 2;

const requestsSchema = z.object({ requests: z.array(z.object({ cacheKey: z.string(), status: z.number() })) });

/** A model refuses requests and asks for a pause of a minute, as for requests above its rate limit. */
async function askTooMuch(attacker: Attacker, tenants: readonly Attacker[]): Promise<void> {
  const order = withOrder('A very long question.', { retryAfterSeconds: RETRY_AFTER_SECONDS });
  const ask = async (tenant: Attacker): Promise<void> => {
    const accepted = await tenant.send(await tenant.createSession('limited'), order);
    if (accepted === null) return;
    await tenant.ask(`/v1/runs/${accepted.runId}/wait?timeoutMs=${ASKED_WITHIN_MS}`);
    await tenant.ask(`/v1/runs/${accepted.runId}/cancel`, { body: {} });
  };
  await Promise.all(tenants.map((tenant) => tenant.inLanes(LANES, () => ask(tenant))));
  const response = await fetch(`${attacker.target.simulatorUrl}/__simulator/requests`);
  const { requests } = requestsSchema.parse(await response.json());
  const told = new Set(requests.flatMap(({ cacheKey, status }) => (status === 429 ? [cacheKey] : [])));
  attacker.count('sessions told to wait', told.size);
  if (told.size < MIN_SESSIONS_TOLD) {
    throw new Error(`${told.size} sessions were told to wait: that is no long pause`);
  }
}

const sessionSchema = z.object({ id: z.string() });
const runSchema = z.object({ status: z.string(), costUsd: z.number().nullable() });
const QUOTA_USD = 0.01;

const UNPRICED = 'simulated-chat/unpriced';

/** A tenant with a daily cost quota asks for a model without a known price: for a new session, and for one that it has. */
async function spendUnpriced(attacker: Attacker): Promise<void> {
  const known = await attacker.createSession('priced');
  await attacker.inLanes(2, async () => {
    const asked = { agent: 'priced', overrides: { model: UNPRICED } };
    const created = await attacker.ask('/v1/sessions', { body: asked });
    attacker.count(`sessions of a model without a price answered ${created.status}`);
    const switched = await attacker.ask(`/v1/sessions/${known}/agent`, { body: { model: UNPRICED } });
    attacker.count(`switches to a model without a price answered ${switched.status}`);
    if (created.status === 201) await spendIn(attacker, sessionSchema.parse(JSON.parse(created.text)).id);
    if (switched.status === 200) await spendIn(attacker, known);
  });
}

async function spendIn(attacker: Attacker, session: string): Promise<void> {
  const accepted = await attacker.send(session, 'Spend.');
  if (accepted === null || (await attacker.ended(accepted.runId, 10_000)) !== 'completed') return;
  const run = runSchema.parse(JSON.parse((await attacker.ask(`/v1/runs/${accepted.runId}`)).text));
  if (run.costUsd !== null && run.costUsd > 0) return;
  attacker.count('runs that cost nothing');
  attacker.breach('a run of a model without a price was completed at no cost, although the tenant has a limit');
}

const PRICE = { input: 1, cachedInput: null, cacheWrite: null, output: 1 };

/** One tenant's dealings with a provider. */
export const PROVIDERS: readonly Row[] = [
  {
    // A pause that several tenants were told applies to all tenants, for that model alone.
    name: 'provider-429',
    about: 'a model asks two tenants to wait, the third uses another one at the same address with the same key',
    setUp: () => ({ agents: { limited: { model: 'simulated/limited' } } }),
    attack: attackBy((attacker, accomplice) => askTooMuch(attacker, [attacker, accomplice])),
  },
  {
    name: 'model-429',
    about: 'a model asks one tenant to wait, the other uses the same one',
    setUp: () => ({ agents: { limited: { model: 'simulated/neighbour' } } }),
    attack: attackBy((attacker) => askTooMuch(attacker, [attacker])),
  },
  {
    name: 'unpriced-model',
    about: 'a session of a model without a price, of a tenant with a limit on its cost',
    async setUp(folder) {
      const models = join(folder, 'models.json');
      const priced = ['attacker', 'neighbour'].map((model) => ({ provider: 'simulated', model, prices: PRICE }));
      await writeFile(models, JSON.stringify(priced));
      return {
        settings: { BATON_MODELS_FILE: models, BATON_TENANT_COST_USD_PER_DAY: String(QUOTA_USD) },
        agents: { priced: { model: 'simulated/attacker' } },
      };
    },
    attack: attackBy(spendUnpriced),
  },
];
